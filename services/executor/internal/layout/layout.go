package layout

import (
	"encoding/hex"
	"path/filepath"
	"strconv"
)

// Root is the absolute path of an executor's directory.
type Root string

// New gives the root at a path, made absolute.
func New(path string) (Root, error) {
	abs, err := filepath.Abs(path)
	return Root(abs), err
}

// Path joins parts under the root.
func (r Root) Path(parts ...string) string {
	return filepath.Join(append([]string{string(r)}, parts...)...)
}

// Relative gives a path as receipts name it: relative to the root.
func (r Root) Relative(path string) string {
	rel, err := filepath.Rel(string(r), path)
	if err != nil {
		return path
	}
	return rel
}

// Home is the executor's own directory.
func (r Root) Home() string { return r.Path("executor") }

// Key is the seed of the executor's own key.
func (r Root) Key() string { return r.Path("executor", "key.seed") }

// Identity says which server this is.
func (r Root) Identity() string { return r.Path("executor", "identity.json") }

// Journal is the executor's memory.
func (r Root) Journal() string { return r.Path("executor", "journal.db") }

// Status is what the running executor tells about itself.
func (r Root) Status() string { return r.Path("executor", "status.json") }

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

// ImageLink is what an agent's current link holds for an image.
func (r Root) ImageLink(digest []byte) string {
	return filepath.Join("..", "..", "images", hex.EncodeToString(digest))
}

// Agents is the directory of all agents.
func (r Root) Agents() string { return r.Path("agents") }

// Agent is an agent's directory.
func (r Root) Agent(agent string) string { return r.Path("agents", agent) }

// Current is the link to an agent's image.
func (r Root) Current(agent string) string { return r.Path("agents", agent, "current") }

// State is what an agent keeps across versions.
func (r Root) State(agent string) string { return r.Path("agents", agent, "state") }

// Run is what an agent's processes need while they run.
func (r Root) Run(agent string) string { return r.Path("agents", agent, "run") }

// Output is where an agent's output is appended.
func (r Root) Output(agent string) string { return r.Path("agents", agent, "run", "output.log") }
