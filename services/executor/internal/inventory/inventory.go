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

	"github.com/garrison-fleet/garrison/pkg/format"
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
