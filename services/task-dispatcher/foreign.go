package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/document"
)

// catchUpWithin bounds how long a worker waits for the end of the ledger.
const catchUpWithin = 10 * time.Second

// ledgerMakes reports whether the ledger makes a document as new as a stored one that is newer than this view's: then
// another dispatcher knew more facts. Otherwise no dispatcher wrote it from this ledger. It is forged, or from a time
// that the ledger lost. A view that has the document's generation decides by itself; else it first reads to the end of
// the ledger, which the leader knows.
func (p *publisher) ledgerMakes(ctx context.Context, stored *desiredv1.Document) (bool, error) {
	if stored.Generation > p.follower.Position() {
		ctx, cancel := context.WithTimeout(ctx, catchUpWithin)
		defer cancel()
		end, err := p.cfg.Conn.Stream(ctx, topology.Ledger)
		if err == nil {
			err = p.follower.Wait(ctx, end.LastSequence)
		}
		if err != nil {
			return false, fmt.Errorf("compare with a newer document: %w", err)
		}
	}
	own, _, err := p.project(stored.ServerId)
	return err == nil && own != nil && !document.Newer(stored, own), err
}

// lookAgainAfter is the time after which a document that replaced a foreign one is compared again.
const lookAgainAfter = 10 * time.Second

// lookAgain compares a server's document once more after a while: a program that wrote one may write another.
func (p *publisher) lookAgain(server string) {
	time.AfterFunc(lookAgainAfter, func() {
		p.positions.drop(server)
		p.changed.add(server)
	})
}

// foreignEvery is the time between two lines of the log about foreign documents of one server.
const foreignEvery = time.Minute

// foreign logs the documents that no dispatcher wrote.
type foreign struct {
	now func() time.Time
	log zerolog.Logger

	mu     sync.Mutex
	said   map[string]time.Time // when there was a line, by server
	silent int                  // documents without a line since the last line
}

// maxForeign is how many servers are remembered.
const maxForeign = 10_000

// note logs that a document is written over, once a minute for each server.
func (f *foreign) note(stored, own *desiredv1.Document) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if at, ok := f.said[own.ServerId]; ok && now.Sub(at).Abs() < foreignEvery {
		f.silent++
		return
	}
	if len(f.said) >= maxForeign {
		clear(f.said)
	}
	f.said[own.ServerId] = now
	f.log.Error().Str(logs.Server, own.ServerId).Uint64("epoch", stored.Epoch).Uint64("generation", stored.Generation).
		Uint64("own_generation", own.Generation).Int("more", f.silent).
		Msg("stored document is not of this ledger; replaced: the ledger was restored, or another program has a key")
	f.silent = 0
}
