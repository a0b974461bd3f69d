package rolling

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Running is the view that the engine's decisions rest on.
type Running interface {
	Reader
	AllServers() iter.Seq[*serverv1.Server]
	Pending(rollout string, wave uint32) iter.Seq[*rolloutv1.Target]
	TargetsOf(rollout string, s rolloutv1.TargetState) iter.Seq[*rolloutv1.Target]
	Silent(rollout string) iter.Seq[*rolloutv1.Target]
	Unrestored(rollout string) iter.Seq[*rolloutv1.Target]
}

// Input returns what the engine's next decision rests on.
func Input(r Running, record *rolloutv1.Rollout, now time.Time) rollout.Input {
	in := &input{reader: r, id: record.Id, tallies: map[string]map[string]*tally{}}
	return rollout.Input{
		Rollout: record, Now: now, Pending: in.pending, Returned: in.returned, Silent: in.silent,
		Field: in.field, Works: in.works, Working: in.working,
	}
}

// tally is how many servers work, of all.
type tally struct{ working, all int }

type input struct {
	reader  Running
	id      string
	tallies map[string]map[string]*tally // by field and value, counted when a keep budget asks for them
}

func (in *input) pending(wave uint32) iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range in.reader.Pending(in.id, wave) {
			if !yield(t.ServerId) {
				return
			}
		}
	}
}

func (in *input) returned() iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for t := range in.reader.TargetsOf(in.id, rolloutv1.TargetState_TARGET_STATE_OWED) {
			s, _ := in.reader.Server(t.ServerId)
			if present(s) && in.healthy(t) && !yield(t.ServerId, t.Wave) {
				return
			}
		}
	}
}

// healthy reports whether no agent that a target changes is unhealthy already.
func (in *input) healthy(t *rolloutv1.Target) bool {
	for _, c := range t.Changes {
		i, _ := in.reader.Instance(t.ServerId, c.Agent)
		if i.GetWanted() != nil && i.Health == instancev1.Health_HEALTH_BAD && len(t.UndoIntentIds) == 0 {
			return false
		}
	}
	return true
}

func (in *input) silent() iter.Seq2[string, time.Time] {
	targets := slices.Collect(in.reader.Silent(in.id))
	slices.SortFunc(targets, func(a, b *rolloutv1.Target) int {
		return cmp.Or(a.SilentSince.AsTime().Compare(b.SilentSince.AsTime()), cmp.Compare(a.ServerId, b.ServerId))
	})
	return func(yield func(string, time.Time) bool) {
		for _, t := range targets {
			counts := t.State == rolloutv1.TargetState_TARGET_STATE_REACHED ||
				t.State == rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
			if counts && !yield(t.ServerId, t.SilentSince.AsTime()) {
				return
			}
		}
	}
}

func (in *input) field(server, field string) string {
	s, _ := in.reader.Server(server)
	return selector.Value(s, field)
}

func (in *input) works(server string) bool {
	s, ok := in.reader.Server(server)
	return ok && in.isWorking(s)
}

// isWorking reports whether a server is online, and every agent on it is as it is wanted and healthy.
func (in *input) isWorking(s *serverv1.Server) bool {
	if !present(s) {
		return false
	}
	for i := range in.reader.InstancesOf(s.Id) {
		if i.State != instancev1.State_STATE_CONVERGED {
			return false
		}
	}
	return true
}

// working returns how many living servers with a field's value work, and how many there are.
func (in *input) working(field, value string) (working, all int) {
	if in.tallies[field] == nil {
		in.tallies[field] = map[string]*tally{}
		for s := range in.reader.AllServers() {
			value := selector.Value(s, field)
			t := in.tallies[field][value]
			if t == nil {
				t = &tally{}
				in.tallies[field][value] = t
			}
			if t.all++; in.isWorking(s) {
				t.working++
			}
		}
	}
	t := in.tallies[field][value]
	if t == nil {
		return 0, 0
	}
	return t.working, t.all
}

func present(s *serverv1.Server) bool {
	return s.GetPresence() == serverv1.Presence_PRESENCE_ONLINE && s.GetLife() == serverv1.Life_LIFE_ALIVE &&
		!server.ShutOut(s)
}
