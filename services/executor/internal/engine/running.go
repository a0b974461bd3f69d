package engine

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// What runs is asked of the kernel, not of memory: /proc/PID/exe names the file that a
// process executes, and below images/ that names the image.

// imageOf gives the digest of the image that a process runs from. A script's process
// executes its interpreter, and is known by the environment that it was started with;
// nil when neither tells.
func (e *Engine) imageOf(pid int) []byte {
	if digest := e.executes(pid); digest != nil {
		return digest
	}
	return e.digestIn(environment(pid, "GARRISON_IMAGE"))
}

// executes gives the digest of the image in which the file is that a process executes, or
// nil. A process in a container may have the same path for another file: it is not ours.
func (e *Engine) executes(pid int) []byte {
	link := procfs(pid, "exe")
	exe, err := os.Readlink(link)
	if err != nil {
		return nil
	}
	digest := e.digestIn(exe)
	if digest == nil {
		return nil
	}
	runs, err := os.Stat(link) // the file itself, wherever it is
	if err != nil {
		return nil
	}
	switch here, err := os.Stat(exe); {
	case err == nil && !os.SameFile(runs, here):
		return nil
	case err != nil && !seesOurFiles(pid): // it was deleted, here or in a place that we do not see
		return nil
	}
	return digest
}

// seesOurFiles says whether a process has the root directory that we have.
func seesOurFiles(pid int) bool {
	its, err := os.Stat(procfs(pid, "root"))
	ours, e := os.Stat("/")
	return err == nil && e == nil && os.SameFile(its, ours)
}

func procfs(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// digestIn gives the digest that names the image in which a path is, or nil.
func (e *Engine) digestIn(path string) []byte {
	for _, images := range []string{e.cfg.Root.Images(), e.realImages()} {
		rest, ok := strings.CutPrefix(path, images+"/")
		if !ok || images == "" {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, layout.GoneName("")), "/") // it may be about to be deleted
		if digest, err := hex.DecodeString(name); err == nil && len(digest) == digestBytes {
			return digest
		}
	}
	return nil
}

// realImages is the images' directory as the kernel names it, which follows links.
func (e *Engine) realImages() string {
	real, err := filepath.EvalSymlinks(e.cfg.Root.Images())
	if err != nil {
		return ""
	}
	return real
}

// environment gives a variable with which a process was started, or "".
func environment(pid int, name string) string {
	data, _ := os.ReadFile(procfs(pid, "environ")) // it ended, or is another user's
	for v := range bytes.SplitSeq(data, []byte{0}) {
		if value, ok := strings.CutPrefix(string(v), name+"="); ok {
			return value
		}
	}
	return ""
}

// lookRunning finds out whether an agent's process runs from the image that is current.
func (e *Engine) lookRunning(f *reportv1.Found, pid int) bool {
	digest := e.imageOf(pid)
	if digest == nil || f.Image == nil || bytes.Equal(digest, f.Image.GetDigest()) {
		return true
	}
	f.Reason = "its process runs from another image: " + e.versionOf(digest)
	return false
}

func (e *Engine) versionOf(digest []byte) string {
	if mark, err := e.images.Mark(digest); err == nil {
		return mark.Version
	}
	return hexOf(digest)[:12]
}
