package observe

import (
	"bytes"
	"path/filepath"
	"strings"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// The kernel says what runs: /proc/PID/exe names the file that a process executes, and below
// images/ that path names the image.

// ImageOf returns the digest of the image that a process runs from, or nil. A script's process
// executes its interpreter; its environment names the image.
func (o *Observer) ImageOf(pid int) []byte { return newImagePaths(o.Root).of(pid) }

// imagePaths finds the image that holds a path. A look at all processes uses one value, since it resolves links once.
type imagePaths struct{ dirs []string } // of the images: as it is named here, and as the kernel names it

func newImagePaths(root layout.Root) imagePaths {
	dirs := []string{root.Images()}
	if resolved, err := filepath.EvalSymlinks(dirs[0]); err == nil && resolved != dirs[0] {
		dirs = append(dirs, resolved)
	}
	return imagePaths{dirs}
}

func (p imagePaths) of(pid int) []byte {
	if digest := p.executes(pid); digest != nil {
		return digest
	}
	return p.started(pid)
}

// started returns the digest of the image from which an agent's process was started, or nil.
func (p imagePaths) started(pid int) []byte {
	return p.digestIn(proctree.Variable(pid, "GARRISON_IMAGE"))
}

// executes returns the digest of the image that holds the file that a process executes, or nil.
func (p imagePaths) executes(pid int) []byte { return p.digestIn(proctree.Executes(pid, p.dirs...)) }

// digestIn returns the digest of the image that holds a path, or nil.
func (p imagePaths) digestIn(path string) []byte {
	for _, dir := range p.dirs {
		rest, ok := strings.CutPrefix(path, dir+"/")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, layout.GoneName("")), "/") // it may be moved aside
		if digest, ok := layout.Digest(name); ok {
			return digest
		}
	}
	return nil
}

// runsCurrent reports whether an agent's process runs from the image that is current, and
// notes the reason.
func (o *Observer) runsCurrent(f *reportv1.Found, pid int) bool {
	digest := o.ImageOf(pid)
	if digest == nil || f.Image == nil || bytes.Equal(digest, f.Image.GetDigest()) {
		return true
	}
	f.Code, f.Reason = code.RunsOtherImage, "its process runs from another image: "+o.versionOf(digest)
	return false
}
