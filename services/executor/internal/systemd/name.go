package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

const (
	slice    = "garrison.slice"
	suffix   = ".service"
	imageLen = 12 // of an image's id: distinguishes the versions of one agent on one server
	rootLen  = 12 // of the hash of a root: distinguishes the executors on one server
)

// Prefix returns the prefix of the names of a root's services. No two executors on one server share it.
func Prefix(root layout.Root) string { return "garrison-" + short(string(root), rootLen) + "-" }

// nameOf names the service of a slot. A program that runs beside the slot's process, such as a check, has another
// record and so another name.
func nameOf(prefix string, s supervise.Spec) string {
	name := prefix + s.Agent + "-" + strings.ReplaceAll(s.Image, "-", "")[:imageLen]
	if base := filepath.Base(s.Record); base != supervise.RecordName(s.Image) {
		name += "." + short(base, 8) // no agent's name holds a dot
	}
	return name + suffix
}

// slotOf returns the agent and the start of the image's id of a service's name.
func slotOf(prefix, name string) (agent, image string, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	rest, service := strings.CutSuffix(rest, suffix)
	rest, _, _ = strings.Cut(rest, ".")
	dash := strings.LastIndexByte(rest, '-')
	if !ours || !service || dash < 1 {
		return "", "", false
	}
	return rest[:dash], rest[dash+1:], true
}

func short(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}
