package access

import (
	"context"
	"errors"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/busstate"
)

const (
	// stallsAfter is how long a leader may commit nothing, while operations wait, before its stream counts as stalled,
	// and how long a replica that is behind may apply nothing before it counts as stuck.
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
	states, err := a.streams(ctx, core, len(servers))
	if err != nil {
		return nil, err
	}
	copies, err := a.streams(ctx, a.cfg.Issuer.AccountKey(topology.AccountCopy), len(servers))
	if err != nil {
		return nil, err
	}
	if copies, err = a.copies(ctx, states, copies); err != nil {
		return nil, err
	}
	for i := range states {
		states[i].Add(copies)
	}
	health, err := a.cfg.System.HealthOfServers(ctx, len(servers))
	if err != nil {
		return nil, err
	}
	for _, answer := range health {
		for i := range states {
			if states[i].Server == answer.Server.Name {
				err = errors.Join(err, states[i].ReadHealth(answer.Data))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	suspects, err := a.suspects(ctx, core, len(servers))
	if err != nil {
		return nil, err
	}
	return busstate.Describe(states, suspects), nil
}

// streams returns what each server of the bus keeps of the streams of an account.
func (a *Access) streams(ctx context.Context, account string, n int) (out []busstate.ServerState, err error) {
	answers, err := a.cfg.System.StreamsOfServers(ctx, account, n)
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		state, err := busstate.Read(answer.Server.Name, answer.Version, answer.Data)
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
	return out, nil
}

// copies returns the copy of the ledger as it is kept. One that is behind is looked at again until it took something:
// after stallsAfter it takes nothing of what it mirrors.
func (a *Access) copies(ctx context.Context, core, first []busstate.ServerState) ([]busstate.ServerState, error) {
	end, had := busstate.EndOf(core, topology.Ledger), busstate.EndOf(first, topology.Copy)
	account := a.cfg.Issuer.AccountKey(topology.AccountCopy)
	for until := time.Now().Add(stallsAfter); had > 0 && had < end; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(stallsEvery):
		}
		next, err := a.streams(ctx, account, len(core))
		if err != nil || busstate.EndOf(next, topology.Copy) > had {
			return next, err
		}
		if time.Now().After(until) {
			busstate.Unfed(next, topology.Copy)
			return next, nil
		}
	}
	return first, nil
}

// groups returns how far each group of replicas agrees.
func (a *Access) groups(ctx context.Context, core string, n int) (busstate.Groups, error) {
	answers, err := a.cfg.System.GroupsOfServers(ctx, core, n)
	if err != nil {
		return nil, err
	}
	out := busstate.Groups{}
	for _, answer := range answers {
		if err := out.Read(answer.Server.Name, core, answer.Data); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// suspects returns the groups of replicas whose leader commits nothing for stallsAfter although operations wait, and
// the replicas that apply nothing meanwhile although they are behind. It returns at once when there are none.
func (a *Access) suspects(ctx context.Context, core string, n int) (busstate.Suspects, error) {
	first, err := a.groups(ctx, core, n)
	if err != nil {
		return busstate.Suspects{}, err
	}
	s := first.Suspects()
	for end := time.Now().Add(stallsAfter); s.Open() && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(stallsEvery):
		}
		next, err := a.groups(ctx, core, n)
		if err != nil {
			return s, err
		}
		s.Clear(next)
	}
	return s, nil
}
