package environments

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	// brakeEvery is the pause between two counts of the servers that drift.
	brakeEvery = time.Second
	// countedAPart bounds how many servers are counted while the view stands still.
	countedAPart = 1000
)

// Brakes counts the servers that drift in each environment, and records when healing is braked and released. Each
// replica counts for itself; the guard of the environment's key lets one of them win.
type Brakes struct {
	records *records.Records
	log     zerolog.Logger
	wake    wakeup.Signal
	tally   *drift.Tally // used by run alone

	mu      sync.Mutex
	changed map[string]bool // ids of servers to count again; bounded by the fleet
}

// NewBrakes returns the brakes of healing.
func NewBrakes(r *records.Records, log zerolog.Logger) *Brakes {
	return &Brakes{records: r, log: log, wake: wakeup.New(), tally: drift.NewTally(), changed: map[string]bool{}}
}

// NoteFacts receives the facts that were just folded.
func (b *Brakes) NoteFacts(facts []ledger.Fact) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range facts {
		switch f.Noun {
		case ledger.Server:
			b.changed[f.Key] = true
		case ledger.Instance:
			id, _, _ := strings.Cut(f.Key, ".")
			b.changed[id] = true
		case ledger.Environment:
		default:
			continue
		}
		b.wake.Wake()
	}
}

// Run counts until ctx is done, the whole fleet first. It decides only on complete counts.
func (b *Brakes) Run(ctx context.Context) error {
	b.noteFleet()
	tick := time.NewTicker(drift.BrakedFor)
	defer tick.Stop()
	for records.Sleep(ctx, brakeEvery) {
		b.count()
		b.decide(ctx)
		select {
		case <-b.wake.C():
		case <-tick.C: // the shortest time of a brake may have passed
		case <-ctx.Done():
		}
	}
	return nil
}

// noteFleet has every server counted.
func (b *Brakes) noteFleet() {
	var ids []string
	b.records.Follower.Read(func() {
		for s := range b.records.View.AllServers() {
			ids = append(ids, s.Id)
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.changed[id] = true
	}
}

// count counts the servers that changed.
func (b *Brakes) count() {
	b.mu.Lock()
	changed := b.changed
	b.changed = map[string]bool{}
	b.mu.Unlock()
	for part := range slices.Chunk(slices.Collect(maps.Keys(changed)), countedAPart) {
		b.records.Follower.Read(func() {
			for _, id := range part {
				s, _ := b.records.View.Server(id)
				b.tally.Set(id, s, b.records.View.InstancesOf(id))
			}
		})
	}
}

// decide records where healing is braked or released now. It is safe to run twice: the fold takes the first.
func (b *Brakes) decide(ctx context.Context) {
	var due []ledger.Draft
	b.records.Follower.Read(func() {
		for name, e := range b.records.View.Environments("") {
			if body := drift.Brake(e, b.tally.Of(name), b.records.Now()); body != nil {
				due = append(due, b.draft(name, body))
			}
		}
	})
	for _, d := range due {
		_, err := b.records.Decider.Append(ctx, d)
		switch {
		case err == nil:
			b.log.Warn().Str("environment", d.Key).Str("fact", d.Name()).
				Uint32("drifting", b.tally.Of(d.Key).Drifting).Uint32("online", b.tally.Of(d.Key).Online).
				Msg("healing of drift braked or released")
		case ctx.Err() == nil && !fault.Is(err, fault.Conflict): // a conflict wakes this part again
			b.log.Warn().Err(err).Str("environment", d.Key).Str(logs.Reason, d.Name()).Msg("brake put off")
		}
	}
}

// draft must run inside Read.
func (b *Brakes) draft(name string, body proto.Message) ledger.Draft {
	cause := ledger.CausedByFact(b.records.View.Sequence(ledger.Environment, name))
	return b.records.Guard(b.records.Own(ledger.Environment, name, body, cause))
}
