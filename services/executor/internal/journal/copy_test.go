package journal_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

func TestACopyHoldsEverythingAndIsReadWhileTheJournalIsOpen(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	err = j.Update(func(tx *journal.Tx) error {
		if err := tx.SetApplied(7); err != nil {
			return err
		}
		if err := tx.PutInstance(&change.Instance{Agent: "beacon"}); err != nil {
			return err
		}
		return tx.End("task", journal.Ended{State: taskv1.State_STATE_SUCCEEDED, At: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy.db")
	for range 2 { // the second takes the place of the first
		if err := j.CopyTo(copied); err != nil {
			t.Fatal(err)
		}
	}
	c, err := journal.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	got, err := c.Examine()
	if want := (journal.Contents{Applied: 7, Instances: 1, Ended: 1}); err != nil || got != want {
		t.Errorf("got %+v, want %+v: %v", got, want, err)
	}
}

func TestARecordThatCannotBeReadIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	for bucket, record := range map[string]string{
		"instances": "{", "changes": "[]", "ended": `{"outcome":"/w=="}`, "outbox": "\xff", "kept": "{", "trash": "{",
	} {
		t.Run(bucket, func(t *testing.T) {
			j, err := journal.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(t.TempDir(), "copy.db")
			if err := j.CopyTo(copied); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := bbolt.Open(copied, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(
				func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte("12345678"), []byte(record)) })
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := journal.OpenWhole(copied); !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("it was opened: %v", err)
			}
		})
	}
}
