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
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
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

// Work derives intents from the defaults of environments. It decides on the view rather than on facts, so a
// restart loses nothing: facts only say which servers to look at. All of its sets are bounded by the fleet.
type Work struct {
	records *records.Records
	log     zerolog.Logger
	wake    wakeup.Signal

	mu           sync.Mutex
	next         map[string]bool             // ids of servers to look at first
	later        map[string]bool             // ids of servers to look at when there are none of those
	environments map[string]bool             // whose servers are to be added to later
	waiting      map[string]bool             // ids of servers on which a default is due that could not be installed
	again        bool                        // something changed that may end the waiting
	held         map[heldKey]map[string]bool // ids of servers of those that too many others wait with
	refused      map[string]bool             // ids of those of waiting that no rollout serves
}

// heldKey is a default of an environment, of which servers are held; see defaults.Held.
type heldKey struct{ environment, agent string }

// NewWork returns what derives intents from defaults.
func NewWork(r *records.Records, log zerolog.Logger) *Work {
	return &Work{
		records: r, log: log, wake: wakeup.New(), next: map[string]bool{}, later: map[string]bool{},
		environments: map[string]bool{}, waiting: map[string]bool{}, held: map[heldKey]map[string]bool{},
		refused: map[string]bool{},
	}
}

// Run derives until ctx is done.
func (d *Work) Run(ctx context.Context) error {
	reconcile, retry := time.NewTicker(reconcileEvery), time.NewTicker(waitingPause)
	defer reconcile.Stop()
	defer retry.Stop()
	d.AddEverything()
	d.waitEverywhere()
	for {
		for servers := d.Take(); len(servers) > 0; servers = d.Take() {
			d.Look(ctx, servers)
			if len(servers) == defaults.Batch && !records.Sleep(ctx, defaultsPause) {
				return nil
			}
		}
		select {
		case <-d.wake.C():
		case <-retry.C:
			d.takeWaiting()
		case <-reconcile.C:
			d.AddEverything()
		case <-ctx.Done():
			return nil
		}
	}
}

// Look derives everything that is due on some servers, at most defaults.Batch.
func (d *Work) Look(ctx context.Context, servers []string) {
	waited := d.expect(servers)
	seen, err := looks{map[string]bool{}, map[string]bool{}}, d.records.Decider.CatchUp(ctx)
	if err == nil {
		for _, group := range d.groups(servers) {
			if err = d.derive(ctx, group, waited, seen); err != nil {
				break
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn().Err(err).Int(logs.Count, len(servers)).Msg("defaults put off")
	}
	d.looked(servers, seen, err != nil)
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
