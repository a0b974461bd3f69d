package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// place is where a route stands, as its file keeps it.
type place struct {
	Sequence uint64    `json:"sequence"` // of the last fact that the route is done with
	ID       string    `json:"id,omitempty"`
	StoredAt time.Time `json:"stored_at,omitzero"` // when the ledger stored that fact

	Delivered   uint64    `json:"delivered"`
	Dead        uint64    `json:"dead"` // dead letters, those sent again or dropped among them
	Resets      uint64    `json:"resets"`
	ResetAt     time.Time `json:"reset_at,omitzero"` // when the ledger last did not continue
	DeliveredAt time.Time `json:"delivered_at,omitzero"`

	Failed       uint64    `json:"failed"`                 // attempts
	FailingSince time.Time `json:"failing_since,omitzero"` // the first of the attempts that failed in a row
	WaitingSince time.Time `json:"waiting_since,omitzero"` // when the fact was stored that could not be delivered yet
	Error        string    `json:"error,omitempty"`        // why the last attempt failed
	ErrorAt      time.Time `json:"error_at,omitzero"`
	// DisabledBy is the version of the file of routes with which the target answered that it is gone.
	DisabledBy string `json:"disabled_by,omitempty"`
}

func placeFile(dir, route string) string { return filepath.Join(dir, route+".json") }

// readPlace reads the place of a route; a new one has no place.
func readPlace(dir, route string) (p place, found bool, err error) {
	data, err := strictdir.ReadSecret(placeFile(dir, route))
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err == nil && !bytes.Contains(data, []byte(`"sequence"`)) {
		err = errors.New("it has no sequence")
	}
	if err != nil {
		return p, false, fmt.Errorf("read the place of webhook %s: %w; without %s it begins at the end of the ledger",
			route, err, placeFile(dir, route))
	}
	return p, true, nil
}

// write keeps a place: a crash leaves the old or the new one.
func (p *place) write(dir, route string) error { return writeJSON(placeFile(dir, route), p) }

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = renameio.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the state of webhooks: %w", err)
	}
	return nil
}

// position returns the place in the ledger.
func (p *place) position() client.Position { return client.Position{Sequence: p.Sequence, ID: p.ID} }

// passed notes that the route is done with a fact.
func (p *place) passed(e client.Event) { p.Sequence, p.ID, p.StoredAt = e.Sequence, e.ID, e.StoredAt }

// succeeded notes that the target took a delivery.
func (p *place) succeeded(at time.Time) {
	p.Delivered++
	p.DeliveredAt, p.FailingSince, p.WaitingSince, p.Error = at, time.Time{}, time.Time{}, ""
}

// failed notes that an attempt to deliver a fact failed, and when the ledger stored that fact.
func (p *place) failed(storedAt, at time.Time, why string) {
	p.Failed++
	p.Error, p.ErrorAt, p.WaitingSince = why, at, storedAt
	if p.FailingSince.IsZero() {
		p.FailingSince = at
	}
}

// deadline returns until when a fact is tried: giveUp after it was stored, or after the target began to fail, which is
// later for facts that waited for this program.
func (p *place) deadline(storedAt time.Time, giveUp time.Duration) time.Time {
	if p.FailingSince.After(storedAt) {
		storedAt = p.FailingSince
	}
	return storedAt.Add(giveUp)
}

// openDir makes the directory of the state, which one process uses at a time until it closes the lock.
func openDir(dir string) (lock *os.File, err error) {
	if err := strictdir.Make(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of webhooks: %w", err)
	}
	lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of webhooks: %w", err)
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = lock.Close()
		return nil, fault.New(fault.Invalid, "the directory %s is in use by another process", dir)
	}
	return lock, nil
}
