// Package image makes, reads and checks images: one immutable build of an agent, as a
// manifest and a blob.
//
// A blob is a zstd-compressed tar archive of a directory. An image file (extension
// .gimg) is a tar archive of two entries, manifest.json (protobuf JSON) and blob, so
// that one file carries an image to a site without a network.
//
//	m, err := image.Build(ctx, image.BuildOptions{Dir: "./cn-agent", Out: "cn-agent.gimg", At: time.Now()})
//
//	f, err := image.Open("cn-agent.gimg")
//	defer f.Close()
//	err = f.Verify(ctx)
//
// Guarantees:
//
//  1. Builds of the same directory by the same version of this code have the same blob, byte
//     for byte, and the same id, on any machine and at any time. Only BuildOptions.At shows
//     in the manifest, and the id does not depend on it.
//  2. A file that Build or Write returned from without an error is whole; otherwise
//     nothing new is at its path or beside it, also when the context ended.
//  3. An executor can unpack every blob that Build made: names and symbolic links keep the
//     rules of package archive, and there are no devices.
//  4. A chunk that Chunk returns has the digest in the manifest.
//  5. A manifest that Check lets pass has sizes and counts within the bounds below, and
//     an id that fits its content.
//  6. Every refusal is of kind Invalid and has a code; see refuse.go.
package image
