package journal

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// CopyTo writes one state of the journal into a new file, while it is worked with.
func (j *Journal) CopyTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("copy journal: %w", err)
	}
	err = j.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("copy journal: %w", err)
	}
	return nil
}

// Contents is how much a journal holds.
type Contents struct {
	Applied   uint64 `json:"document_generation"`
	Instances int    `json:"instances"`
	Changes   int    `json:"changes"`
	Ended     int    `json:"ended"`
	Outbox    int    `json:"outbox"`
}

// Examine reads every record that the journal has, and checks the file itself.
func (j *Journal) Examine() (c Contents, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() { // to its end, which is when it has let the file go
			if first == nil {
				first = err
			}
		}
		return first
	})
	if err != nil {
		return c, fmt.Errorf("check journal: %w", err)
	}
	err = j.Read(func(tx *Tx) error {
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		changes, err := tx.Changes()
		if err != nil {
			return err
		}
		ended, err := list[Ended](tx.tx.Bucket(bucketEnded))
		if err != nil {
			return err
		}
		for _, e := range ended {
			if _, err := e.ReadOutcome(); err != nil {
				return err
			}
		}
		if _, err := tx.Kept(); err != nil {
			return err
		}
		if _, err := tx.Trash(); err != nil {
			return err
		}
		waiting, err := tx.reports()
		c = Contents{Applied: tx.Applied(), Instances: len(instances), Changes: len(changes), Ended: len(ended), Outbox: len(waiting)}
		return err
	})
	return c, err
}
