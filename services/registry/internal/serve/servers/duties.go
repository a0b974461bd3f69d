package servers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// dutiesEvery is how often duties are looked for without a wake-up: what could not be recorded is
// tried again.
const dutiesEvery = 5 * time.Second

// Duties records what follows from the view: instances that are gone, servers that are dead. It
// reads the view rather than facts, so a restart loses nothing.
type Duties struct {
	records *records.Records
	signer  signing.Tombstones
	log     zerolog.Logger
	queue   *reconcile.Queue[reconcile.Once]

	mu         sync.Mutex
	unrecorded map[string]duty.Unrecorded // why the duties of a server could not be recorded, by its id
}

// NewDuties returns what ends instances and servers whose time has come.
func NewDuties(r *records.Records, signer signing.Tombstones, log zerolog.Logger) *Duties {
	d := &Duties{
		records: r, signer: signer, log: log, unrecorded: map[string]duty.Unrecorded{},
		queue: reconcile.NewQueue[reconcile.Once](r.Now, nil),
	}
	d.queue.Add(reconcile.Once{})
	return d
}

// NoteFacts receives the facts that were just folded. Duties only follow from those about tasks, servers and
// instances.
func (d *Duties) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Noun {
		case ledger.Task, ledger.Server, ledger.Instance:
			d.queue.Add(reconcile.Once{})
			return
		}
	}
}

// Run does duties until ctx is done.
func (d *Duties) Run(ctx context.Context) error {
	return reconcile.Loop[reconcile.Once]{
		Name: "duties", Queue: d.queue, Every: dutiesEvery, Tick: func() { d.queue.Add(reconcile.Once{}) }, Log: d.log,
		Pass: func(ctx context.Context, _ []reconcile.Once) error {
			d.doAll(ctx)
			return nil
		},
	}.Run(ctx)
}

// doAll does everything that is due now, in parallel, so that the writer can gather it.
func (d *Duties) doAll(ctx context.Context) {
	var servers []string
	d.records.Follower.Read(func() { servers = slices.Collect(d.records.View.ServersWithDuties()) })
	d.prune(servers)
	records.InParallel(len(servers), func(n int) {
		err := d.do(ctx, servers[n])
		if ctx.Err() != nil || fault.Is(err, fault.Conflict) {
			return
		}
		if d.note(servers[n], err); err != nil {
			d.log.Warn().Err(err).Str(logs.Server, servers[n]).Msg("duty put off")
		}
	})
}

// note keeps why the duties of a server could not be recorded; nil means that they were.
func (d *Duties) note(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.unrecorded, id)
		return
	}
	next := duty.Unrecorded{Since: d.records.Now(), Reason: request.OneLine(err.Error())}
	if before, ok := d.unrecorded[id]; ok {
		next.Since = before.Since
	}
	d.unrecorded[id] = next
}

// prune drops the servers without duties, so that what is kept stays bounded by the fleet.
func (d *Duties) prune(due []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.unrecorded {
		if !slices.Contains(due, id) {
			delete(d.unrecorded, id)
		}
	}
}

// Left returns what the end of a server still waits for. It must run inside Read.
func (d *Duties) Left(s *serverv1.Server) []*serverv1.Duty {
	d.mu.Lock()
	unrecorded, tried := d.unrecorded[s.Id]
	d.mu.Unlock()
	if !tried {
		return duty.Left(s, d.records.View.InstancesOf(s.Id), nil)
	}
	return duty.Left(s, d.records.View.InstancesOf(s.Id), &unrecorded)
}

// do records the units that are due for one server. A Conflict means that another replica recorded
// them, or that something changed; the next fact leads to a new try.
func (d *Duties) do(ctx context.Context, id string) error {
	var units [][]ledger.Draft
	var cell string
	d.records.Follower.Read(func() {
		s, ok := d.records.View.Server(id)
		if !ok {
			return
		}
		cell = s.Cell
		for _, u := range duty.Units(s, d.records.View.InstancesOf(id), d.records.Now()) {
			units = append(units, d.draft(s, u))
		}
	})
	for _, drafts := range units {
		if err := d.signer.Sign(drafts, func(string) string { return cell }); err != nil {
			return err
		}
		if _, err := d.records.Decider.Append(ctx, drafts...); err != nil {
			return err
		}
		d.log.Info().
			Str(logs.Server, id).
			Int(logs.Count, len(drafts)).
			Str("fact", drafts[len(drafts)-1].Name()).
			Msg("duty done")
	}
	return nil
}

func (d *Duties) draft(s *serverv1.Server, u duty.Unit) []ledger.Draft {
	var drafts []ledger.Draft
	for _, c := range u {
		noun, key, intent := ledger.Server, s.Id, s.IntentId
		if c.Instance != nil {
			noun, key, intent = ledger.Instance, ledger.Key(s.Id, c.Instance.Agent), c.Instance.IntentId
		}
		f := d.records.Own(noun, key, c.Body, ledger.CausedByFact(d.records.View.Sequence(noun, key)))
		f.Request = intent
		if _, dies := c.Body.(*serverv1.Dead); dies { // an instance that another registry adds meanwhile defeats it
			drafts = append(drafts, ledger.OnAllOf(f, view.LastOn(d.records.View, s.Id)))
			continue
		}
		drafts = append(drafts, d.records.Guard(f))
	}
	return drafts
}
