package executor

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
)

// The engine ends the agents that the journal knows. What else runs from below the root, as
// the agent of an entry that was lost, would run on with its files gone from beneath it, on a
// machine that counts as clean. So it is looked for before anything is touched, and again
// when the agents are gone and nothing may run there any more.

// known are the names of directories below images/ and agents/ in which an engine ends what runs.
type known struct{ images, agents map[string]bool }

func knownTo(tx *journal.Tx) (known, error) {
	k := known{map[string]bool{}, map[string]bool{}}
	instances, err := tx.Instances()
	for _, i := range instances {
		k.add(i.Agent, i.Image)
	}
	changes, err2 := tx.Changes()
	for _, c := range changes {
		k.add(c.Agent, c.To)
		if c.From != nil {
			k.add(c.Agent, c.From.Image)
		}
	}
	return k, errors.Join(err, err2)
}

func (k known) add(agent string, image journal.Manifest) {
	k.agents[agent] = true
	k.images[hex.EncodeToString(image.Digest())] = true
}

// ends says whether an engine ends a process: one of an image that the journal knows, or one
// from elsewhere, as of a script, that works in the directory of an agent that it knows.
func (k known) ends(p kin.Process, images, agents string) bool {
	if name, ok := within(p.Exe, images); ok {
		return k.images[name]
	}
	if name, ok := within(p.Path(), agents); ok {
		return k.agents[name]
	}
	name, _ := within(p.Dir, images)
	return k.images[name]
}

// within gives the first part of a path below a directory.
func within(path, dir string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir+"/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}

// lookForStrangers refuses when something runs that no engine ends, before one begins.
func (c *cleaner) lookForStrangers() error {
	k := known{}
	if !notThere(c.x.root.Journal()) {
		err := journal.Look(c.x.root.Journal(), func(tx *journal.Tx) (err error) {
			k, err = knownTo(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.onlyKnown(k)
}

// maxNamed is how many processes a refusal names.
const maxNamed = 10

// onlyKnown refuses when something runs below the root that is not known.
func (c *cleaner) onlyKnown(k known) error {
	words, err := c.x.strangers(k)
	if err != nil || len(words) == 0 {
		return err
	}
	return c.refuse("PROCESSES_STAY", "processes run below %s that the journal does not know: %s", c.x.root, strings.Join(words, ", "))
}

// strangers names the processes below the root that no engine ends.
func (x *Executor) strangers(k known) (words []string, err error) {
	images, agents := resolved(x.root.Images()), resolved(x.root.Agents())
	found, err := kin.Below(images, agents)
	for _, p := range found {
		if !k.ends(p, images, agents) {
			words = append(words, fmt.Sprintf("%d at %s", p.PID, p.Path()))
		}
	}
	if n := len(words); n > maxNamed {
		words = append(words[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	return words, err
}

// resolved is a directory as the kernel names it, which may be gone itself.
func resolved(dir string) string {
	if path, err := filepath.EvalSymlinks(dir); err == nil {
		return path
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		return filepath.Join(parent, filepath.Base(dir))
	}
	return dir
}
