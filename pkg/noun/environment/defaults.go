package environment

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// WithDefault returns the default that a fact with a sequence makes of the one before, which may be nil. What was in
// reach stays in reach, so that a default that is set again, for new servers, still serves those that wait for it. A
// reach that is kept is not asked for again: what was removed since stays removed. One that a rollout brought counts
// from the rollout's plan on, so that a server from which the rollout took the agent again stays without it. What the
// undo of a rollout sets again has the reach that it had.
func WithDefault(have *environmentv1.Default, b *environmentv1.DefaultSet, sequence uint64) *environmentv1.Default {
	next := &environmentv1.Default{
		Image: b.Image, Metadata: b.Metadata, Reach: b.Reach, Revision: sequence, Owners: b.Owners,
		Since: have.GetSince(), AllSince: have.GetAllSince(), RolloutId: b.RolloutId, AtOnce: b.AtOnce,
	}
	from := sequence
	if b.Since > 0 {
		from = min(from, b.Since)
	}
	if have == nil {
		next.Since = from
	}
	if b.AllSince != nil {
		next.AllSince = b.GetAllSince()
		return next
	}
	kept := b.KeepReach && have.GetReach() == environmentv1.Reach_REACH_ALL
	if b.Reach == environmentv1.Reach_REACH_ALL && !kept {
		next.AllSince = max(from, next.AllSince)
	}
	return next
}

// AppliesSince returns the ledger's sequence from which a default applies to a server of its environment, and reports
// whether it applies at all. What is removed after that sequence stays removed.
func AppliesSince(d *environmentv1.Default, s *serverv1.Server) (sequence uint64, applies bool) {
	if joined := s.GetEnvironmentJoined(); joined > d.GetSince() {
		return max(joined, d.GetAllSince()), true
	}
	return d.GetAllSince(), d.GetAllSince() > 0
}

func setDefault(
	have *environmentv1.Environment, b *environmentv1.DefaultSet, f ledger.Fact,
) (*environmentv1.Environment, bool) {
	next := shallow(have)
	d := WithDefault(have.Defaults[b.Agent], b, f.Sequence)
	d.Actor, d.SetAt = f.Actor, timestamppb.New(f.At)
	next.Defaults[b.Agent] = d
	return next, true
}

func unsetDefault(have *environmentv1.Environment, b *environmentv1.DefaultUnset) (*environmentv1.Environment, bool) {
	if _, ok := have.Defaults[b.Agent]; !ok {
		return have, false
	}
	next := shallow(have)
	delete(next.Defaults, b.Agent)
	return next, true
}

// shallow returns a copy of a record with defaults of its own.
func shallow(have *environmentv1.Environment) *environmentv1.Environment {
	next := proto.CloneOf(have)
	if next.Defaults == nil {
		next.Defaults = map[string]*environmentv1.Default{}
	}
	return next
}
