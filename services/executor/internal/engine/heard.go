package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// A change during which the executor crashed may crash it again, for as long as it takes to count that. Meanwhile
// someone may have decided otherwise, so the document is heard before such a change goes on, if the bus answers soon.

// heard is the document that was offered last. It is safe for concurrent use.
type heard struct {
	first chan struct{} // closed when there is one

	mu   sync.Mutex
	last *desiredv1.Document
}

func newHeard() *heard { return &heard{first: make(chan struct{})} }

func (h *heard) offer(d *desiredv1.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		close(h.first)
	}
	if h.last == nil || !newer(h.last, d) {
		h.last = d
	}
}

// within returns the last document, or nil. It waits for the first one, for a while at most.
func (h *heard) within(ctx context.Context, d time.Duration) *desiredv1.Document {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-h.first:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

var errNotWanted = fault.Refusef(fault.Invalid, code.NotWanted,
	"the executor ended during this change, which is no longer wanted")

// calledOff reports whether a document that continues the server's history no longer wants a change.
func (v recovery) calledOff(ctx context.Context, rec *change.Record) bool {
	d := v.heard.within(ctx, v.cfg.HearWithin)
	if d == nil || !v.cfg.Believe(d) {
		return false
	}
	var have lineage.Position
	err := v.cfg.Journal.Read(func(tx *journal.Tx) error { have = tx.Position(); return nil })
	return err == nil && lineage.Codes[lineage.Compare(have, d)] == "" && !wants(d, rec)
}

// wants reports whether a document wants a change that is open. One whose agent it does not name is not decided on.
func wants(d *desiredv1.Document, rec *change.Record) bool {
	if rec.TaskID != "" && slices.Contains(d.GetUnwantedTaskIds(), rec.TaskID) {
		return false
	}
	for _, r := range d.GetRemovals() {
		if r.GetAgent() == rec.Agent {
			return false
		}
	}
	for _, en := range d.GetEntries() {
		if en.GetAgent() == rec.Agent {
			return en.GetInstanceId() == rec.InstanceID && en.GetImage().GetId() == rec.To.GetId() &&
				bytes.Equal(en.GetConfigurationDigest(), rec.ConfigurationDigest)
		}
	}
	return true
}
