package engine

import (
	"sync"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
)

// A lost journal is rebuilt from the disk. While anything on the server is not explained by
// the rebuilt inventory, the inventory is not trusted, and nothing counts as removed. The
// inventory of a journal that was never lost is trusted; what is unexplained is reported, and
// keeps a dead server's executor from removing itself.

// Doubt is what keeps the inventory from being trusted. The zero value is no doubt.
type Doubt struct {
	Why   string // empty when the inventory is trusted
	Empty bool   // nothing could be rebuilt
}

// doubts compares the inventory of a lost journal with the server.
type doubts struct {
	journal *journal.Journal
	observe *observe.Observer
	settles bool // whether the end of the doubt is written
	changed func(Doubt)
	log     zerolog.Logger

	mu  sync.Mutex
	now Doubt
}

// check compares the inventory with the disk and the processes if the journal was ever lost.
func (d *doubts) check() (Doubt, error) {
	lost, in := "", journal.Inventory{}
	err := d.journal.Read(func(tx *journal.Tx) (err error) {
		lost = tx.Note(journal.NoteLost)
		in, err = tx.Inventory()
		return err
	})
	if err != nil || lost == "" {
		return Doubt{}, err
	}
	found, err := d.observe.Unexplained()
	if err != nil {
		return Doubt{}, err
	}
	is := Doubt{}
	if len(found) > 0 {
		is = Doubt{
			Why:   lost + "; unexplained since then: " + observe.Describe(found),
			Empty: len(in.Instances) == 0,
		}
	} else if len(in.Changes) == 0 && d.settles {
		err = d.journal.SetNote(journal.NoteLost, "")
	}
	d.set(is)
	return is, err
}

func (d *doubts) set(is Doubt) {
	d.mu.Lock()
	was := d.now
	d.now = is
	d.mu.Unlock()
	switch {
	case is == was:
		return
	case is.Why == "":
		d.log.Info().Msg("inventory trusted again")
	case was.Why == "":
		d.log.Error().Str(logs.Reason, is.Why).Msg("inventory not trusted; nothing counts as removed")
	}
	d.changed(is)
}

// why returns why the inventory is not trusted, or "".
func (d *doubts) why() (string, error) {
	is, err := d.check()
	return is.Why, err
}
