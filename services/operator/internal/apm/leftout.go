package apm

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// packageJSON is what is read of the agent's package.json.
type packageJSON struct {
	Version      string            `json:"version"`
	Scripts      map[string]string `json:"scripts"`
	Bin          any               `json:"bin"`
	Dependencies any               `json:"sdcDependencies"`
}

// leaveOut lists what of the agent has no place in an image.
func (c *conversion) leaveOut() {
	for _, name := range slices.Sorted(maps.Keys(c.pkg.Scripts)) {
		if slices.Contains(lifecycle, name) {
			c.skip("script "+name, "images run no scripts around an installation: "+c.pkg.Scripts[name])
		}
	}
	if c.service != nil {
		c.leaveOutService()
	}
	if n := c.count("sapi_manifests"); n > 0 {
		c.skip("sapi_manifests", listing.Plural(n, "file")+"; a template becomes a Go template under run.configs")
	}
	if bin, ok := c.pkg.Bin.(map[string]any); ok && len(bin) > 0 {
		c.skip("bin", "no command is linked into a PATH: "+strings.Join(slices.Sorted(maps.Keys(bin)), ", "))
	} else if name, ok := c.pkg.Bin.(string); ok {
		c.skip("bin", "no command is linked into a PATH: "+name)
	}
	if c.pkg.Dependencies != nil {
		c.skip("sdcDependencies", fmt.Sprintf("Triton does not enforce %v; see requires in garrison.yaml",
			c.pkg.Dependencies))
	}
	for _, name := range slices.Sorted(maps.Keys(c.manifest.Requirements)) {
		c.skip("requirement "+name, fmt.Sprintf("no field of an image means %v", c.manifest.Requirements[name]))
	}
	if len(c.manifest.Channels) > 0 {
		c.skip("channels", "garrison image promote IMAGE --channel NAME brings it to "+
			strings.Join(c.manifest.Channels, ", "))
	}
	if n, first := c.foreign(); n > 0 {
		c.skip("programs", listing.Plural(n, "file")+" built for illumos, which do not run on Linux: "+first)
	}
}

// lifecycle are the scripts that APM runs.
var lifecycle = []string{
	"preinstall", "install", "postinstall", "preuninstall", "uninstall", "postuninstall",
}

func (c *conversion) leaveOutService() {
	for _, m := range c.service.Methods {
		switch m.Name {
		case "start":
		case "stop":
			if m.Exec != ":kill" {
				c.skip("stop method", "a version is stopped with SIGTERM: "+m.Exec)
			}
		default:
			c.skip(m.Name+" method", "no field of an image means it: "+m.Exec)
		}
	}
	var needs []string
	for _, d := range c.service.Needs {
		needs = append(needs, d.Name)
	}
	if len(needs) > 0 {
		c.skip("dependencies of the service", strings.Join(needs, ", "))
	}
	c.skip("health check", "SMF has none; the image counts as ready once it stays up: see run.ready in garrison.yaml")
}

// count returns how many files a directory of the agent holds.
func (c *conversion) count(dir string) (n int) {
	_ = fs.WalkDir(c.root.FS(), dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return nil
	})
	return n
}

// The start of an ELF file, and the byte of it that names the system that it was built for.
const (
	elfMagic   = "\x7fELF"
	elfSystem  = 7
	elfSolaris = 6
)

// foreign returns how many programs of the agent are for illumos, and the first of them. Only the mark of the format is
// read: one without it may be for any system.
func (c *conversion) foreign() (n int, first string) {
	_ = fs.WalkDir(c.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		f, err := c.root.Open(name)
		if err != nil {
			return nil
		}
		head := make([]byte, elfSystem+1)
		_, err = io.ReadFull(f, head)
		_ = f.Close()
		if err == nil && bytes.HasPrefix(head, []byte(elfMagic)) && head[elfSystem] == elfSolaris {
			if n++; n == 1 {
				first = name
			}
		}
		return nil
	})
	return n, first
}
