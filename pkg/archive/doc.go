// Package archive has the rules for the entries of an image's archive: their names, and what their symbolic links
// lead to. The build applies them before it packs an entry, the executor before it unpacks one.
//
//	tree := archive.NewTree()
//	name, err := archive.CheckName(header.Name)
//	tree.Add(name, header.Typeflag)
//	err = tree.AddLink(name, header.Linkname)
//	for _, link := range tree.Links() {
//		err = tree.Follow(link)
//	}
//
// Guarantees:
//
//  1. An archive of which the build lets every entry pass breaks none of these rules on a server.
//  2. A link that Follow lets pass leads to a file or directory of the tree, without leaving it on the way.
//  3. Every refusal is of kind Invalid, has a code and names the entry in quotes.
package archive
