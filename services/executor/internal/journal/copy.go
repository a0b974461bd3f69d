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

// Examine reads and counts every record that the journal has. An error is ErrDamaged when one cannot be read.
func (j *Journal) Examine() (c Contents, err error) {
	err = j.Read(func(tx *Tx) error {
		if c, err = tx.contents(); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil
	})
	return c, err
}

func (t *Tx) contents() (c Contents, err error) {
	instances, err := t.Instances()
	if err != nil {
		return c, err
	}
	changes, err := t.Changes()
	if err != nil {
		return c, err
	}
	ended, err := list[Ended](t.tx.Bucket(bucketEnded))
	if err != nil {
		return c, err
	}
	for _, e := range ended {
		if _, err := e.ReadOutcome(); err != nil {
			return c, err
		}
	}
	if _, err := t.Kept(); err != nil {
		return c, err
	}
	if _, err := t.Trash(); err != nil {
		return c, err
	}
	waiting, err := t.reports()
	return Contents{
		Applied:   t.Applied(),
		Instances: len(instances),
		Changes:   len(changes),
		Ended:     len(ended),
		Outbox:    len(waiting),
	}, err
}
