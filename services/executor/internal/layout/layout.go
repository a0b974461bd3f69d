// Package layout knows where everything is under an executor's root directory, and how
// a small file is written there.
//
//	executor/            key, identity, journal.db, journal.mark, status.json, starts.json, at its end tombstone.json
//	executor/journal.db.damaged-TIME  journals that could no longer be used, the newest three
//	executor/program     a link to the executor's own program, when an image brought one
//	executor/outputs/AGENT/  the output of a first install that was undone, until the agent is installed
//	busy/NAME.json       a critical section, which a program on the server began
//	cache/DIGEST/N       chunks that were fetched and verified, while a change needs them
//	images/DIGEST/       one unpacked image, sealed
//	agents/AGENT/current a link to the image that is current
//	agents/AGENT/instance.json  what the journal says of it, for when the journal is lost
//	agents/AGENT/change.json    the change that switches it, until that has ended
//	agents/AGENT/config  a link to its configuration
//	agents/AGENT/configs/DIGEST/  what was rendered, sealed
//	agents/AGENT/state/  what the agent keeps across versions
//	agents/AGENT/run/    process records, output.log and the notify socket
//	agents/.garrison-tmp-gone-ID/, images/.garrison-tmp-gone-DIGEST/  what was removed, until it is deleted
//
// Guarantees:
//
//  1. Write replaces a file whole or not at all, also when the machine loses power.
//  2. Nothing outside the root is named, whatever an agent is called: names are
//     checked before they come here.
package layout

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/mounts"
)

// Root is the absolute path of an executor's directory.
type Root string

// At returns the root at a path, made absolute.
func At(path string) (Root, error) {
	abs, err := filepath.Abs(path)
	return Root(abs), err
}

// New returns the root at a path for a program that believes and executes what is in it. It refuses
// one that another user could change. A root that is not there yet is checked as far as it is.
func New(path string) (Root, error) {
	r, err := At(path)
	if err != nil {
		return r, err
	}
	for _, dir := range []string{string(r), r.Home(), r.Agents(), r.Images(), r.Cache()} {
		if err := strictdir.Dir(dir); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Path joins parts under the root.
func (r Root) Path(parts ...string) string {
	return filepath.Join(append([]string{string(r)}, parts...)...)
}

// Relative returns a path as receipts name it: relative to the root.
func (r Root) Relative(path string) string {
	rel, err := filepath.Rel(string(r), path)
	if err != nil {
		return path
	}
	return rel
}

// Usable refuses a root where nothing can be written or no program can be started.
func (r Root) Usable() error {
	for _, dir := range []string{r.Home(), r.Agents(), r.Images(), r.Cache()} {
		if err := mounts.Writable(dir); err != nil {
			return err
		}
	}
	return mounts.Executable(r.Images())
}

// Home is the executor's own directory.
func (r Root) Home() string { return r.Path("executor") }

// Key is the seed of the executor's own key.
func (r Root) Key() string { return r.Path("executor", "key.seed") }

// NextKey is the seed of the key with which the server is joining again.
func (r Root) NextKey() string { return r.Path("executor", "key.seed.next") }

// Identity says which server this is.
func (r Root) Identity() string { return r.Path("executor", "identity.json") }

// ImageKeys lists the keys, one of which must have signed an image; without the file images need no signature.
func (r Root) ImageKeys() string { return r.Path("executor", "image-keys") }

// Journal is the executor's memory.
func (r Root) Journal() string { return r.Path("executor", "journal.db") }

// JournalMark says how far the journal had come.
func (r Root) JournalMark() string { return r.Path("executor", "journal.mark") }

// Status is what the running executor reports about itself.
func (r Root) Status() string { return r.Path("executor", "status.json") }

// Program is a link to the program that runs instead of the one that was started; it is
// there while an image of kind self is installed.
func (r Root) Program() string { return r.Path("executor", "program") }

// ProgramLink is what Program holds for a program in an image: relative, as the root may be moved.
func (r Root) ProgramLink(program string) string {
	rel, err := filepath.Rel(r.Home(), program)
	if err != nil {
		return program
	}
	return rel
}

// Starts counts the starts of that program until it is known to stay up.
func (r Root) Starts() string { return r.Path("executor", "starts.json") }

// Rehearsal is the copy of the journal that a new executor reads in its rehearsal; a crash
// leaves it to SweepTemporary.
func (r Root) Rehearsal() string { return r.Path("executor", TemporaryPrefix+"rehearsal.db") }

// Tombstone reports that this server is dead and its executor removes itself.
func (r Root) Tombstone() string { return r.Path("executor", "tombstone.json") }

// Own returns every file that may be in the executor's own directory, in the order in which
// an uninstall removes them: who it is goes last. The tombstone is not among them.
func (r Root) Own() []string {
	return []string{
		r.Program(),
		r.Starts(),
		r.FailedOutputs(),
		r.Status(),
		r.Journal(),
		r.JournalMark(),
		r.ImageKeys(),
		r.Identity(),
		r.NextKey(),
		r.Key(),
	}
}

// Detectors is the directory of programs that find candidates for adoption. The server's owner fills it.
func (r Root) Detectors() string { return r.Path("detectors.d") }

// Busy is the directory of the critical sections that programs on the server began.
func (r Root) Busy() string { return r.Path("busy") }

// SectionSuffix ends the name of a critical section's file.
const SectionSuffix = ".json"

// Section is one critical section.
func (r Root) Section(name string) string { return r.Path("busy", name+SectionSuffix) }

// Cache is the directory of all caches.
func (r Root) Cache() string { return r.Path("cache") }

// CacheOf is the directory of a blob's chunks.
func (r Root) CacheOf(digest []byte) string { return r.Path("cache", hex.EncodeToString(digest)) }

// Chunk is one chunk of a blob.
func (r Root) Chunk(digest []byte, n int) string {
	return filepath.Join(r.CacheOf(digest), strconv.Itoa(n))
}

// Images is the directory of all images.
func (r Root) Images() string { return r.Path("images") }

// Image is the directory of one unpacked image.
func (r Root) Image(digest []byte) string { return r.Path("images", hex.EncodeToString(digest)) }

// freshSuffix ends the name of a copy of an image that is to take a damaged one's place.
const freshSuffix = ".fresh"

// FreshImage is where a copy of a damaged image is staged: beside it, so that one rename
// makes them change places.
func (r Root) FreshImage(digest []byte) string { return r.Image(digest) + freshSuffix }

// FreshDigest returns the digest of the image that a directory is a fresh copy of.
func FreshDigest(name string) (digest []byte, ok bool) {
	of, ok := strings.CutSuffix(strings.TrimSuffix(name, "-old"), freshSuffix)
	digest, err := hex.DecodeString(of)
	return digest, ok && err == nil
}

// ImageLink is what an agent's current link holds for an image.
func (r Root) ImageLink(digest []byte) string {
	return filepath.Join("..", "..", "images", hex.EncodeToString(digest))
}

// Agents is the directory of all agents.
func (r Root) Agents() string { return r.Path("agents") }

// Agent is an agent's directory.
func (r Root) Agent(agent string) string { return r.Path("agents", agent) }

// GoneName names a directory with what was removed and is still to be deleted.
func GoneName(id string) string { return TemporaryPrefix + "gone-" + id }

// Gone is where an agent's directory is moved before it is deleted: beside the agents, so
// that one rename does it.
func (r Root) Gone(name string) string { return r.Path("agents", name) }

// GoneImage is where an image is moved before it is deleted.
func (r Root) GoneImage(digest []byte) string {
	return r.Path("images", GoneName(hex.EncodeToString(digest)))
}

// Current is the link to an agent's image.
func (r Root) Current(agent string) string { return r.Path("agents", agent, "current") }

// Installed is what the journal says of an agent, kept beside it.
func (r Root) Installed(agent string) string { return r.Path("agents", agent, "instance.json") }

// Changing is the change that switches an agent, until it has ended.
func (r Root) Changing(agent string) string { return r.Path("agents", agent, "change.json") }

// Config is the link to an agent's rendered configuration.
func (r Root) Config(agent string) string { return r.Path("agents", agent, "config") }

// Configs is the directory of an agent's rendered configurations.
func (r Root) Configs(agent string) string { return r.Path("agents", agent, "configs") }

// Rendered is one rendered configuration.
func (r Root) Rendered(agent, digest string) string {
	return r.Path("agents", agent, "configs", digest)
}

// RehearsedConfig is a rendered configuration that only a rehearsal reads. The sweep of an
// agent's configurations deletes it.
func (r Root) RehearsedConfig(agent, digest string) string {
	return filepath.Join(r.Configs(agent), TemporaryPrefix+"rehearsal", digest)
}

// RenderedLink is what an agent's config link holds for a rendered configuration.
func (r Root) RenderedLink(digest string) string { return filepath.Join("configs", digest) }

// State is what an agent keeps across versions.
func (r Root) State(agent string) string { return r.Path("agents", agent, "state") }

// Run is what an agent's processes need while they run.
func (r Root) Run(agent string) string { return r.Path("agents", agent, "run") }

// Output is where an agent's output is appended.
func (r Root) Output(agent string) string { return r.Path("agents", agent, "run", "output.log") }

// FailedOutputs is where the output stays of agents whose first install was undone.
func (r Root) FailedOutputs() string { return r.Path("executor", "outputs") }

// FailedOutput is the output of a first install that was undone, until the agent is installed.
func (r Root) FailedOutput(agent string) string {
	return filepath.Join(r.FailedOutputs(), agent, "output.log")
}

// Missing reports whether nothing exists at a path. It does not follow a link there.
func Missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// DigestBytes is the length of a digest.
const DigestBytes = 32

// Digest returns the digest that a name is, if it is one. Other names are not ours.
func Digest(name string) (digest []byte, ok bool) {
	digest, err := hex.DecodeString(name)
	return digest, err == nil && len(digest) == DigestBytes && name == strings.ToLower(name)
}
