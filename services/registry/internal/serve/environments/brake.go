package environments

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
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
	queue   *reconcile.Queue[string] // ids of servers to count again
	tally   *drift.Tally             // used by passes alone
}

// noServer is the key of a pass that counts nothing again: an environment changed, or time passed.
const noServer = ""

// NewBrakes returns the brakes of healing. They count every server first.
func NewBrakes(r *records.Records, log zerolog.Logger) *Brakes {
	b := &Brakes{records: r, log: log, tally: drift.NewTally(), queue: reconcile.NewQueue(r.Now, r.Servers)}
	b.queue.AddGroup(records.Everyone)
	return b
}

// NoteFacts receives the facts that were just folded.
func (b *Brakes) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Noun {
		case ledger.Server, ledger.Instance:
			id, _, _ := strings.Cut(f.Key, ".")
			b.queue.Add(id)
		case ledger.Environment:
			b.queue.Add(noServer)
		}
	}
}

// Run counts until ctx is done. A pass takes all servers that changed, so that it decides only on complete counts.
func (b *Brakes) Run(ctx context.Context) error {
	return reconcile.Loop[string]{
		Name: "brakes", Queue: b.queue, Pause: brakeEvery, Log: b.log,
		Every: drift.BrakedFor, Tick: func() { b.queue.Add(noServer) }, // the shortest time of a brake may have passed
		Pass: func(ctx context.Context, servers []string) error {
			b.count(servers)
			b.decide(ctx)
			return nil
		},
	}.Run(ctx)
}

// count counts the servers that changed.
func (b *Brakes) count(changed []string) {
	for part := range slices.Chunk(changed, countedAPart) {
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
