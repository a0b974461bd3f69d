package access

import (
	"context"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/busstate"
)

const (
	// stallsAfter is how long a leader may commit nothing, while operations wait, before its stream counts as stalled.
	stallsAfter = 3 * time.Second
	stallsEvery = 500 * time.Millisecond
)

// getBus describes the bus. It asks each of its servers, and waits a second for one that does not answer.
func (a *Access) getBus(
	ctx context.Context, _ bus.Caller, _ *accessv1.GetBusRequest,
) (*accessv1.GetBusResponse, error) {
	servers, err := a.cfg.System.Servers(ctx)
	if err != nil {
		return nil, err
	}
	core := a.cfg.Issuer.AccountKey(topology.AccountCore)
	answers, err := a.cfg.System.StreamsOfServers(ctx, core, len(servers))
	if err != nil {
		return nil, err
	}
	var states []busstate.ServerState
	for _, answer := range answers {
		state, err := busstate.Read(answer.Server.Name, answer.Version, answer.Data)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	stalled, err := a.stalled(ctx, core, len(servers))
	if err != nil {
		return nil, err
	}
	return busstate.Describe(states, stalled), nil
}

// progress returns how far each group of replicas agrees.
func (a *Access) progress(ctx context.Context, core string, n int) (map[string]busstate.Progress, error) {
	answers, err := a.cfg.System.GroupsOfServers(ctx, core, n)
	if err != nil {
		return nil, err
	}
	out := map[string]busstate.Progress{}
	for _, answer := range answers {
		if err := busstate.ReadProgress(core, answer.Data, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stalled returns the groups of replicas whose leader commits nothing for stallsAfter although operations wait. It
// returns at once when none wait.
func (a *Access) stalled(ctx context.Context, core string, n int) (map[string]bool, error) {
	first, err := a.progress(ctx, core, n)
	if err != nil {
		return nil, err
	}
	waiting := map[string]bool{}
	for group, p := range first {
		if p.Waits() {
			waiting[group] = true
		}
	}
	for end := time.Now().Add(stallsAfter); len(waiting) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(stallsEvery):
		}
		next, err := a.progress(ctx, core, n)
		if err != nil {
			return nil, err
		}
		for group := range waiting {
			if p, ok := next[group]; !ok || p.Committed != first[group].Committed || !p.Waits() {
				delete(waiting, group)
			}
		}
	}
	return waiting, nil
}
