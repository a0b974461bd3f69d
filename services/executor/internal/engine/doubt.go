package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// A journal that was lost is built again from the disk. As long as anything is here that it
// then does not explain, nobody knows what else it has forgotten: its inventory is not
// trusted, and nothing counts as removed. A journal that was never lost is trusted; what
// is beside it is reported, and keeps a dead server's executor from removing itself.

// The codes of what the inventory does not know.
const (
	CodeInventoryUntrusted = "INVENTORY_UNTRUSTED"
	CodeNotInInventory     = "NOT_IN_INVENTORY"
)

// Doubt is what keeps the inventory from being trusted. The zero value is no doubt.
type Doubt struct {
	Why   string // empty when the inventory is trusted
	Empty bool   // nothing at all could be built again
}

// Doubt compares the inventory with the disk and the processes, if the journal was ever
// lost, and tells the result when it changed.
func (e *Engine) Doubt() (Doubt, error) {
	lost, empty, settled := "", false, false
	err := e.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		changes, err2 := tx.Changes()
		lost, empty, settled = tx.Note(journal.NoteLost), len(instances) == 0, len(changes) == 0
		return errors.Join(err, err2)
	})
	if err != nil || lost == "" {
		return Doubt{}, err
	}
	beside, err := e.beside()
	if err != nil {
		return Doubt{}, err
	}
	d := Doubt{}
	if len(beside) > 0 {
		d = Doubt{Why: lost + "; not explained since: " + wordsFor(beside), Empty: empty}
	} else if settled && !e.cfg.Trial {
		err = e.cfg.Journal.Update(func(tx *journal.Tx) error { return tx.SetNote(journal.NoteLost, "") })
	}
	e.tellDoubt(d)
	return d, err
}

func (e *Engine) tellDoubt(d Doubt) {
	e.mu.Lock()
	was := e.doubt
	e.doubt = d
	e.mu.Unlock()
	switch {
	case d == was:
		return
	case d.Why == "":
		e.cfg.Log.Info().Msg("inventory trusted again")
	case was.Why == "":
		e.cfg.Log.Error().Str(logs.Reason, d.Why).Msg("inventory not trusted; nothing counts as removed")
	}
	e.cfg.Doubted(d)
}

// beside returns everything that is here of agents and that the inventory does not explain.
// Another root's is not here.
func (e *Engine) beside() ([]trace, error) {
	began := time.Now()
	before, err := e.inventory()
	if err != nil {
		return nil, err
	}
	traces := append(e.traces(e.images.Whole), e.marked()...)
	after, err := e.inventory()
	here := e.unexplained(before.strictly(), after.strictly(), began, traces)
	return slices.DeleteFunc(here, func(t trace) bool { return t.OtherRoot != "" }), err
}

// maxWords is how many traces are named.
const maxWords = 5

// wordsFor names traces, each path once.
func wordsFor(traces []trace) string {
	var words []string
	seen := map[string]bool{}
	for _, t := range traces {
		what := t.Path
		if t.Trace == serverv1.Trace_TRACE_PROCESS {
			what = fmt.Sprintf("process %d of %s", t.Pid, t.Path)
		}
		if !seen[t.Path] {
			words = append(words, what)
		}
		seen[t.Path] = true
	}
	if n := len(words); n > maxWords {
		words = append(words[:maxWords], fmt.Sprintf("and %d more", n-maxWords))
	}
	return strings.Join(words, ", ")
}

// checkForgotten refuses to call an instance removed that the inventory does not know, while
// something of its agent is here or the inventory is not trusted. An agent that is here as
// another instance has taken the place of the one that is meant.
func (c *change) checkForgotten() error {
	d, err := c.Doubt()
	if err != nil {
		return err
	}
	if d.Why != "" {
		return refuse(CodeInventoryUntrusted, "the inventory does not know instance %s of agent %s, and is not trusted: %s",
			c.rec.InstanceID, c.rec.Agent, d.Why)
	}
	if c.rec.From != nil {
		return nil
	}
	here, err := c.beside()
	here = slices.DeleteFunc(here, func(t trace) bool { return t.name != c.rec.Agent })
	if err == nil && len(here) > 0 {
		err = refuse(CodeNotInInventory, "the inventory does not know instance %s of agent %s, and it is here: %s",
			c.rec.InstanceID, c.rec.Agent, wordsFor(here))
	}
	return err
}

// marked looks for processes that were started as agents from an image of this root, also
// those of scripts, which run another program than the image's.
func (e *Engine) marked() []trace {
	return e.processesBy(func(pid int) []byte { return e.digestIn(environment(pid, "GARRISON_IMAGE")) })
}
