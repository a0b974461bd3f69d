package journal

import (
	"errors"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// Inventory is what is installed and what is being changed, in one state of the journal.
type Inventory struct {
	Instances []*change.Instance // by agent
	Changes   []*change.Record   // in the order in which they began
}

// Inventory returns the inventory and the open changes.
func (j *Journal) Inventory() (in Inventory, err error) {
	err = j.Read(func(tx *Tx) (err error) {
		in, err = tx.Inventory()
		return err
	})
	return in, err
}

// Inventory returns the inventory and the open changes.
func (t *Tx) Inventory() (in Inventory, err error) {
	var errs [2]error
	in.Instances, errs[0] = t.Instances()
	in.Changes, errs[1] = t.Changes()
	return in, errors.Join(errs[:]...)
}

// Instance returns the inventory's line about an agent, or nil.
func (j *Journal) Instance(agent string) (now *change.Instance, err error) {
	err = j.Read(func(tx *Tx) (err error) {
		now, err = tx.Instance(agent)
		return err
	})
	return now, err
}
