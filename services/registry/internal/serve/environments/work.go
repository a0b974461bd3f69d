// Package environments derives what servers want from their environment: defaults, moves, and the brake of healing.
package environments

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	// reconcileEvery is how often the servers of every environment with defaults are looked at without a wake-up.
	reconcileEvery = time.Minute
	// defaultsPause is the pause between two looks at defaults.Batch servers, so that a large fleet leaves room for
	// other work.
	defaultsPause = 20 * time.Millisecond
	// waitingPause is the pause between two looks at servers that wait, however often images and agents change.
	waitingPause = time.Second
)

// Work derives intents from the defaults of environments. All of its sets are bounded by the fleet.
type Work struct {
	records *records.Records
	log     zerolog.Logger
	queue   *reconcile.Queue[string] // ids of servers; its groups are environments

	mu      sync.Mutex
	waiting map[string]bool             // ids of servers on which a default is due that could not be installed
	again   bool                        // something changed that may end the waiting
	held    map[heldKey]map[string]bool // ids of servers of those that too many others wait with
	refused map[string]bool             // ids of those of waiting that no rollout serves
}

// heldKey is a default of an environment with servers that are held; see defaults.Held.
type heldKey struct{ environment, agent string }

// NewWork returns what derives intents from defaults.
func NewWork(r *records.Records, log zerolog.Logger) *Work {
	return &Work{
		records: r, log: log, queue: reconcile.NewQueue(r.Now, r.Servers),
		waiting: map[string]bool{}, held: map[heldKey]map[string]bool{}, refused: map[string]bool{},
	}
}

// Run derives until ctx is done.
func (d *Work) Run(ctx context.Context) error {
	d.AddEverything()
	d.waitEverywhere()
	reconciled := time.Now()
	return reconcile.Loop[string]{
		Name: "defaults", Queue: d.queue, Pass: d.Look, Most: defaults.Batch, Pause: defaultsPause, Retry: waitingPause,
		Every: waitingPause, Log: d.log,
		Tick: func() {
			d.takeWaiting()
			if time.Since(reconciled) >= reconcileEvery {
				d.AddEverything()
				reconciled = time.Now()
			}
		},
	}.Run(ctx)
}

// Look derives everything that is due on some servers, at most defaults.Batch.
func (d *Work) Look(ctx context.Context, servers []string) error {
	slices.Sort(servers)
	waited := d.expect(servers)
	if err := d.records.Decider.CatchUp(ctx); err != nil {
		return err
	}
	seen := looks{map[string]bool{}, map[string]bool{}}
	for _, group := range d.groups(servers) {
		if err := d.derive(ctx, group, waited, seen); err != nil {
			return err
		}
	}
	d.looked(servers, seen)
	return nil
}

// looks is on which of the servers that were looked at a default waits, and on which of those it was refused or held.
type looks struct{ waiting, refused map[string]bool }

// defaultsGroup is servers of one environment and the agents of its defaults, in the order of installation.
type defaultsGroup struct {
	environment string
	agents      []string
	servers     []string
}

// groups returns the servers by environment, without those whose environment has no defaults.
func (d *Work) groups(servers []string) []defaultsGroup {
	byName := map[string]*defaultsGroup{}
	d.records.Follower.Read(func() {
		for _, id := range servers {
			s, _ := d.records.View.Server(id)
			e, ok := d.records.View.Environment(s.GetEnvironment())
			if !ok || len(e.Defaults) == 0 {
				continue
			}
			g := byName[e.Name]
			if g == nil {
				g = &defaultsGroup{environment: e.Name, agents: defaults.Agents(d.records.View, e)}
				byName[e.Name] = g
			}
			g.servers = append(g.servers, id)
		}
	})
	var out []defaultsGroup
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, *byName[name])
	}
	return out
}

// derive records the intents that are due on the servers of one environment. It is safe to run twice: what is recorded
// is no longer due, and a decision on an outdated view fails its guards.
func (d *Work) derive(ctx context.Context, g defaultsGroup, waited map[string]bool, seen looks) error {
	for _, agent := range g.agents {
		var derived defaults.Derived
		_, err := d.records.Decider.Do(ctx, func() ([]ledger.Draft, error) {
			derived = defaults.Derive(d.records.View, g.environment, agent, g.servers, waited, d.records.Now())
			return derived.Drafts, nil
		})
		if err != nil {
			return err
		}
		for _, id := range derived.Waiting {
			seen.waiting[id] = true
		}
		for _, id := range derived.Refused {
			seen.refused[id] = true
		}
		d.keepHeld(heldKey{g.environment, agent}, g.servers, derived.Held)
		if derived.Intent != "" {
			d.log.Info().Str(logs.Intent, derived.Intent).Str("environment", g.environment).Str(logs.Agent, agent).
				Uint32(logs.Count, derived.Changed).Msg("default installed")
		}
	}
	return nil
}
