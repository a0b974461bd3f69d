package registry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
)

// dutiesEvery is how often duties are looked for without a wake-up: what could not be recorded is
// tried again.
const dutiesEvery = 5 * time.Second

// duties records what follows from the view: instances that are gone, servers that are dead. It
// reads the view rather than facts, so a restart loses nothing.
type duties struct {
	records *records
	signer  tombstones
	log     zerolog.Logger
	wake    wakeup.Signal // when a duty may be due

	mu         sync.Mutex
	unrecorded map[string]duty.Unrecorded // why the duties of a server could not be recorded, by its id
}

func newDuties(r *records, signer tombstones, log zerolog.Logger) *duties {
	return &duties{
		records: r, signer: signer, log: log, wake: wakeup.New(), unrecorded: map[string]duty.Unrecorded{},
	}
}

// run does duties until ctx is done.
func (d *duties) run(ctx context.Context) error {
	tick := time.NewTicker(dutiesEvery)
	defer tick.Stop()
	for {
		d.doAll(ctx)
		select {
		case <-d.wake.C():
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// doAll does everything that is due now, in parallel, so that the writer can gather it.
func (d *duties) doAll(ctx context.Context) {
	var servers []string
	d.records.follower.Read(func() { servers = slices.Collect(d.records.view.ServersWithDuties()) })
	d.prune(servers)
	inParallel(len(servers), func(n int) {
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
func (d *duties) note(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.unrecorded, id)
		return
	}
	next := duty.Unrecorded{Since: d.records.now(), Reason: oneLine(err.Error())}
	if before, ok := d.unrecorded[id]; ok {
		next.Since = before.Since
	}
	d.unrecorded[id] = next
}

// prune drops the servers without duties, so that what is kept stays bounded by the fleet.
func (d *duties) prune(due []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.unrecorded {
		if !slices.Contains(due, id) {
			delete(d.unrecorded, id)
		}
	}
}

// left returns what the end of a server still waits for. It must run inside Read.
func (d *duties) left(s *serverv1.Server) []*serverv1.Duty {
	d.mu.Lock()
	unrecorded, tried := d.unrecorded[s.Id]
	d.mu.Unlock()
	if !tried {
		return duty.Left(s, d.records.view.InstancesOf(s.Id), nil)
	}
	return duty.Left(s, d.records.view.InstancesOf(s.Id), &unrecorded)
}

// do records the units that are due for one server. A Conflict means that another replica recorded
// them, or that something changed; the next fact leads to a new try.
func (d *duties) do(ctx context.Context, id string) error {
	var units [][]ledger.Draft
	var cell string
	d.records.follower.Read(func() {
		s, ok := d.records.view.Server(id)
		if !ok {
			return
		}
		cell = s.Cell
		for _, u := range duty.Units(s, d.records.view.InstancesOf(id)) {
			units = append(units, d.draft(s, u))
		}
	})
	for _, drafts := range units {
		if err := d.signer.sign(drafts, func(string) string { return cell }); err != nil {
			return err
		}
		if _, err := d.records.decider.Append(ctx, drafts...); err != nil {
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

func (d *duties) draft(s *serverv1.Server, u duty.Unit) []ledger.Draft {
	var drafts []ledger.Draft
	for _, c := range u {
		noun, key, intent := ledger.Server, s.Id, s.IntentId
		if c.Instance != nil {
			noun, key, intent = ledger.Instance, ledger.Key(s.Id, c.Instance.Agent), c.Instance.IntentId
		}
		f := d.records.own(noun, key, c.Body, ledger.CausedByFact(d.records.view.Sequence(noun, key)))
		f.Request = intent
		drafts = append(drafts, d.records.guard(f))
	}
	return drafts
}
