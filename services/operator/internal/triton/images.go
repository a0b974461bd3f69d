package triton

import (
	"path"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// Image is an image of the dump whose content Garrison may be able to take.
type Image struct {
	UUID, Agent, Version string
	File                 string // of its content
}

// contentOf are the endings of files with the content of an image, Garrison's own first.
var contentOf = []string{
	".gimg", "", ".file", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".gz", ".bz2", ".xz", ".zfs.gz",
}

// images lists the images whose content is beside their manifests.
func (c *convert) images() {
	for id, f := range sorted(c.Dump.images) {
		i := Image{UUID: id, Agent: f.text("name"), Version: f.text("version")}
		name := i.Agent + "@" + i.Version
		content := c.content(id, f.file)
		switch {
		case f.text("type") != "" && f.text("type") != "other":
			c.skip(string(image), name, "UUID "+id+": an image of a virtual machine ("+f.text("type")+")")
		case content == "":
			c.skip(string(image), name, "UUID "+id+": no content beside "+f.file)
		case !strings.HasSuffix(content, contentOf[0]):
			c.skip(string(image), name, content+" is no image of Garrison: garrison image build "+content+" --triton "+
				f.file+" makes one")
		default:
			i.File = content
			c.out.Images = append(c.out.Images, i)
		}
	}
}

// content returns the file with the content of an image: beside its manifest, with its name or its UUID; empty without
// one.
func (c *convert) content(id, manifest string) string {
	dir, base := path.Split(manifest)
	stem := base
	for _, end := range ManifestEndings {
		stem = strings.TrimSuffix(stem, end)
	}
	for _, end := range contentOf {
		for _, name := range []string{stem + end, id + end} {
			if file := dir + name; slices.Contains(c.options.Files, file) {
				return file
			}
		}
	}
	return ""
}

// ManifestEndings are the endings of the files that are read.
var ManifestEndings = []string{".json", ".jsonl", ".ndjson", ".imgmanifest", ".manifest"}

// known reports whether the dump or the records have an agent.
func (c *convert) known(agent string) bool {
	_, imported := c.names[declare.Agents][agent]
	_, lives := c.options.Live[declare.Agents][agent]
	return imported || lives
}
