package cli

import (
	"strings"
	"sync"
)

// Names are the names of what is known by id. It is safe for concurrent use; a nil one learns nothing.
type Names struct {
	mu    sync.Mutex
	pairs []string // ids, each with the name of what it is
}

// Learn keeps the name of an id.
func (n *Names) Learn(id, name string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pairs = append(n.pairs, id, name)
}

// In returns a text with names in place of the ids that are known.
func (n *Names) In(text string) string {
	if n == nil {
		return text
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.NewReplacer(n.pairs...).Replace(text)
}
