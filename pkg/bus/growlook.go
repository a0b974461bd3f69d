package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// before is what a move finds.
type before struct {
	moved     bool                             // the move is complete
	have      map[string]*jetstream.StreamInfo // the streams of the old bus, by name
	leftovers []string                         // streams that a move which did not end left in the cluster
}

// look reads both buses and changes neither. It refuses an old bus of another topology, and a cluster that has streams
// of its own.
func (g Growth) look(ctx context.Context) (b before, err error) {
	b.have = map[string]*jetstream.StreamInfo{}
	fenced := false
	for _, want := range topology.Streams(1) {
		s, err := g.From.js.Stream(ctx, want.Name)
		if err != nil {
			return b, fmt.Errorf("look at stream %s of the old bus: %w", want.Name, err)
		}
		b.have[want.Name] = s.CachedInfo()
		fenced = fenced || topology.IsFenced(s.CachedInfo().Config)
	}
	if !fenced {
		plan, err := g.From.Topology(ctx, topology.Bus{Replicas: 1, SyncsAlways: g.Want.SyncsAlways})
		if err != nil {
			return b, err
		}
		if plan.From.Number != topology.Number {
			return b, fault.New(fault.Conflict, "the old bus has topology %d and this program %d: run both of one "+
				"version, and grow then", plan.From.Number, topology.Number)
		}
	}
	moved := false
	err = untilReady(ctx, func(ctx context.Context) (err error) { moved, err = g.hasMoved(ctx); return err })
	switch {
	case err != nil:
		return b, fmt.Errorf("look at the ledger of the cluster: %w", err)
	case moved && fenced:
		b.moved = true
		return b, nil
	case topology.HasMovedAway(b.have[topology.Ledger].Config):
		return b, fault.New(fault.Conflict, "the old bus moved to another cluster before, which may have decided "+
			"more: connect to that one")
	}
	b.leftovers, err = g.leftovers(ctx, b.have, fenced)
	return b, err
}

// leftovers returns the streams that a move which did not end left in the cluster. It refuses any other stream there.
func (g Growth) leftovers(
	ctx context.Context, have map[string]*jetstream.StreamInfo, fenced bool,
) (names []string, err error) {
	for name, old := range have {
		s, err := g.To.js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("look at stream %s of the cluster: %w", name, err)
		case !fenced, s.CachedInfo().State.LastSeq > old.State.LastSeq:
			return nil, fault.New(fault.Conflict, "the cluster has a stream %s already: grow into an empty cluster",
				name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// clear deletes what a move that did not end left in the cluster.
func (g Growth) clear(ctx context.Context, leftovers []string) error {
	for _, name := range leftovers {
		g.Say("stream %s is there from a move that did not end: it is copied again", name)
		if err := g.To.js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("delete stream %s of the cluster: %w", name, err)
		}
	}
	return nil
}

// DryRun says what Run would do, and refuses what Run would refuse. It changes nothing on either bus.
func (g Growth) DryRun(ctx context.Context) error {
	b, err := g.look(ctx)
	if err != nil {
		return err
	}
	if b.moved {
		g.Say("the streams are in the cluster already: nothing would be copied")
		return nil
	}
	blobs, rest := split(topology.Streams(g.Want.Replicas))
	for _, want := range append([]jetstream.StreamConfig{blobs}, rest...) {
		is, again := b.have[want.Name], ""
		if slices.Contains(b.leftovers, want.Name) {
			again = "; a copy from a move that did not end would be deleted first"
		}
		g.Say("stream %s: %d messages up to %d, %.1f MB, would be copied to %d replicas%s", want.Name,
			is.State.Msgs, is.State.LastSeq, float64(is.State.Bytes)/1e6, want.Replicas, again)
	}
	g.Say("no bus would take writes while all but %s are copied; nothing was changed", blobs.Name)
	return nil
}
