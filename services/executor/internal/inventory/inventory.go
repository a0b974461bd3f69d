// Package inventory keeps beside each agent what the journal says of it, so that the
// inventory of a journal that is lost, damaged or set back is built again from the disk,
// without the bus.
//
// Guarantees:
//
//  1. An agent's record is on the disk before the journal says that the agent is installed,
//     and goes with the agent's directory in one rename.
//  2. A change is on the disk before its switch begins, and goes before its end is written.
//  3. What cannot be read, or is of another server or another agent, counts for nothing.
package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sum"
)

// Format numbers the records.
var Format = format.Spec{Kind: "record of an agent", Now: 1, Floor: 1, Oldest: 1}

// Record is one agent's file: what is installed, or the change that switches it.
type Record struct {
	format.Stamp
	Server   string           `json:"server_id"`
	Journal  string           `json:"journal"`
	Count    uint64           `json:"count"` // of the journal, when it says the same
	Instance *change.Instance `json:"instance,omitempty"`
	Change   *change.Record   `json:"change,omitempty"`
}

// Keeper writes the records of one server's agents.
type Keeper struct {
	Root    layout.Root
	Server  string
	Journal *journal.Journal
}

// Installed writes what is installed of an agent, unless its record says so already. It is
// called before the journal says so.
func (k Keeper) Installed(i *change.Instance) error {
	path := k.Root.Installed(i.Agent)
	was, err := read(path)
	if err == nil && was.Journal == k.Journal.ID() && was.Server == k.Server && same(was.Instance, i) {
		return nil
	}
	count, err := k.count()
	if err != nil {
		return err
	}
	return k.write(path, Record{Instance: i, Count: count + 1})
}

// Begins writes the change that is about to switch an agent, after the journal has it.
func (k Keeper) Begins(c *change.Record) error {
	count, err := k.count()
	if err != nil {
		return err
	}
	return k.write(k.Root.Changing(c.Agent), Record{Change: c, Count: count})
}

// Ends forgets that change.
func (k Keeper) Ends(agent string) error {
	path := k.Root.Changing(agent)
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("forget the change of %s: %w", agent, err)
	}
	return layout.SyncDir(filepath.Dir(path))
}

func (k Keeper) count() (n uint64, err error) {
	err = k.Journal.Read(func(tx *journal.Tx) error { n = tx.Count(); return nil })
	return n, err
}

func (k Keeper) write(path string, r Record) error {
	r.Stamp, r.Server, r.Journal = Format.Stamp(), k.Server, k.Journal.ID()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return layout.Write(path, append(sum.Add(filepath.Base(path), data), '\n'), 0o600)
}

func read(path string) (r Record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	data = bytes.TrimSpace(data)
	if err := sum.Check(filepath.Base(path), data); err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read record %s: %w", path, err)
	}
	return r, Format.Check(path, r.Stamp)
}

func same(a, b *change.Instance) bool {
	was, err := json.Marshal(a)
	now, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(was, now)
}

// Disk is what the agents' records say together.
type Disk struct {
	Instances []Record
	Changes   []Record
	Gone      []*journal.Trash // directories that removals set aside
}

// Look reads the records of all agents of a server. A server without a name is any.
func Look(root layout.Root, server string) (d Disk) {
	entries, _ := os.ReadDir(root.Agents()) // without it there are no agents
	for _, e := range entries {
		agent := e.Name()
		if strings.HasPrefix(agent, layout.GoneName("")) {
			d.Gone = append(d.Gone, goneOf(root, agent))
			continue
		}
		if ident.CheckName("agent", agent) != nil {
			continue
		}
		ours := func(r Record, err error) bool { return err == nil && (server == "" || r.Server == server) }
		if r, err := read(root.Installed(agent)); ours(r, err) && r.Instance != nil && r.Instance.Agent == agent {
			d.Instances = append(d.Instances, r)
		}
		if r, err := read(root.Changing(agent)); ours(r, err) && r.Change != nil && r.Change.Agent == agent {
			d.Changes = append(d.Changes, r)
		}
	}
	return d
}

// goneOf returns what is to be deleted of an agent whose directory was set aside.
func goneOf(root layout.Root, name string) *journal.Trash {
	t := &journal.Trash{Name: name, Since: time.Now()}
	if r, err := read(filepath.Join(root.Gone(name), filepath.Base(root.Installed("")))); err == nil &&
		r.Instance != nil {
		t.Agent, t.InstanceID = r.Instance.Agent, r.Instance.ID
	}
	return t
}

// Server returns the server that the records belong to, or an empty one when they differ.
func (d Disk) Server() (server string) {
	for n, r := range append(slices.Clone(d.Instances), d.Changes...) {
		if n > 0 && r.Server != server {
			return ""
		}
		server = r.Server
	}
	return server
}

// Older reports why a journal is older than what the disk says, or is empty. An agent that
// the journal is changing is that change's: it is finished or undone.
func (d Disk) Older(tx *journal.Tx) (why string, err error) {
	open, err := tx.Changes()
	changing := map[string]bool{}
	for _, c := range open {
		changing[c.Agent] = c.Touched()
	}
	for _, r := range append(slices.Clone(d.Instances), d.Changes...) {
		agent := r.agent()
		switch {
		case changing[agent]:
		case r.Journal != tx.ID():
			why = fmt.Sprintf("agent %s was installed by the journal %s, and this one is %s", agent, r.Journal, tx.ID())
		case r.Count > tx.Count():
			why = fmt.Sprintf("agent %s was changed at %d, and the journal has come to %d", agent, r.Count, tx.Count())
		}
	}
	return why, err
}

func (r Record) agent() string {
	if r.Change != nil {
		return r.Change.Agent
	}
	return r.Instance.Agent
}

// Rebuild writes into an empty journal what the disk says: what is installed, what is being
// switched, and what is still to be deleted. A change goes on at its switch, as after a crash.
func (d Disk) Rebuild(j *journal.Journal) error {
	return j.Update(func(tx *journal.Tx) (err error) {
		installed := map[string]*change.Instance{}
		for _, r := range d.Instances {
			installed[r.Instance.Agent] = r.Instance
			err = errors.Join(err, tx.PutInstance(r.Instance))
		}
		for _, r := range d.Changes {
			if !done(r.Change, installed[r.Change.Agent]) {
				err = errors.Join(err, tx.PutChange(r.Change))
			}
		}
		for _, gone := range d.Gone {
			err = errors.Join(err, tx.PutTrash(gone))
		}
		return err
	})
}

// done reports whether what a change brings is what is installed.
func done(c *change.Record, i *change.Instance) bool {
	return i != nil && i.ID == c.InstanceID && i.Generation == c.Generation && i.Image.GetId() == c.To.GetId() &&
		bytes.Equal(i.ConfigurationDigest, c.ConfigurationDigest)
}
