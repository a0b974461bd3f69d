package rolling

import (
	"cmp"
	"encoding/hex"
	"iter"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Running is the view that the engine's decisions rest on.
type Running interface {
	Reader
	Works(server string) bool
	Kept(field, value string) keep.Count
	Budgets(server string) ([]*rolloutv1.Keep, []keep.Group)
	InGroup(g keep.Group) keep.Count
	Pending(rollout string, wave uint32) iter.Seq[*rolloutv1.Target]
	TargetsOf(rollout string, s rolloutv1.TargetState) iter.Seq[*rolloutv1.Target]
	Silent(rollout string) iter.Seq[*rolloutv1.Target]
	Due(rollout string) iter.Seq[*rolloutv1.Target]
	Unprimed(rollout string) iter.Seq[*rolloutv1.Target]
	FetchesAhead() bool // whether servers of any environment fetch ahead
	Unrestored(rollout string) iter.Seq[*rolloutv1.Target]
}

// Input returns what the engine's next decision rests on, at the time of its basis.
func Input(r Running, record *rolloutv1.Rollout, basis *rolloutv1.Basis) rollout.Input {
	now := basis.At.AsTime()
	in := &input{reader: r, id: record.Id, now: now}
	in.unseen = basis.UnseenUntil == nil || !now.Before(basis.UnseenUntil.AsTime())
	paused, until := Paused(r, now)
	return rollout.Input{
		Paused: paused, PausedUntil: until,
		Rollout: record, Now: now, Pending: in.pending, Returned: in.returned, Silent: in.silent,
		Closed: in.closed, Unprimed: in.unprimed, Ahead: in.ahead,
		Due:   func() iter.Seq[*rolloutv1.Target] { return r.Due(record.Id) },
		Field: in.field, Works: r.Works, Working: in.working, Standing: in.standing, Refused: in.refused,
	}
}

// Paused returns why the site is paused at a time, and until when; "" while it is not.
func Paused(r Reader, at time.Time) (why string, until time.Time) {
	h := hold.Pause(r, at)
	if h == nil {
		return "", time.Time{}
	}
	return "the site is paused: " + h.Reason, h.Until.AsTime()
}

type input struct {
	reader Running
	id     string
	now    time.Time
	unseen bool                    // whether a server counts as silent whose observation alone is awaited
	doors  map[string]window.State // by environment
	aheads map[string]fetching     // by environment
}

// fetching is whether the servers of an environment may fetch ahead now, and when they may next.
type fetching struct {
	open bool
	next time.Time
}

func (in *input) pending(wave uint32) iter.Seq[string] {
	return func(yield func(string) bool) {
		for t := range in.reader.Pending(in.id, wave) {
			if !in.reverts(t) && !yield(t.ServerId) {
				return
			}
		}
	}
}

// reverts reports whether a change of a target was withdrawn and what was wanted before is not recorded yet. A decision
// would rest on what is no longer wanted; the fact that records it leads to the next one.
func (in *input) reverts(t *rolloutv1.Target) bool {
	return Reverts(in.reader, t) || slices.ContainsFunc(t.Changes, func(c *rolloutv1.Change) bool {
		i, _ := in.reader.Instance(t.ServerId, c.Agent)
		return in.queued(i)
	})
}

// Reverts reports whether a change of a target is off, and it is not recorded yet that what was there before is wanted.
func Reverts(r Reader, t *rolloutv1.Target) bool {
	return slices.ContainsFunc(t.Changes, func(c *rolloutv1.Change) bool {
		i, _ := r.Instance(t.ServerId, c.Agent)
		return i.GetReverts()
	})
}

// queued reports whether an undo before this one, of the same rollout, was aborted while its change of an instance was
// queued, which is about to be withdrawn.
func (in *input) queued(i *instancev1.Instance) bool {
	r, _ := in.reader.Rollout(in.id)
	if r.GetUndoes() == "" {
		return false
	}
	return slices.ContainsFunc(in.reader.RolloutsOn(i.GetServerId()), func(id string) bool {
		other, _ := in.reader.Rollout(id)
		return other.GetUndoes() == r.Undoes && queuedBy(in.reader, other, i)
	})
}

func (in *input) returned() iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for t := range in.reader.TargetsOf(in.id, rolloutv1.TargetState_TARGET_STATE_OWED) {
			s, _ := in.reader.Server(t.ServerId)
			if present(s) && in.healthy(t) && !in.reverts(t) && !yield(t.ServerId, t.Wave) {
				return
			}
		}
	}
}

// healthy reports whether no agent that a target changes is unhealthy already.
func (in *input) healthy(t *rolloutv1.Target) bool {
	for _, c := range t.Changes {
		if i, _ := in.reader.Instance(t.ServerId, c.Agent); unwell(c, i) && len(t.UndoIntentIds) == 0 {
			return false
		}
	}
	return true
}

// unwell reports whether an agent is unhealthy before a change that is not made for that.
func unwell(c *rolloutv1.Change, i *instancev1.Instance) bool {
	return !c.Repair && i.GetWanted() != nil && i.Health == instancev1.Health_HEALTH_BAD
}

func (in *input) silent() iter.Seq2[string, time.Time] {
	targets := slices.DeleteFunc(slices.Collect(in.reader.Silent(in.id)), func(t *rolloutv1.Target) bool {
		return !in.unseen && t.SilentSince == nil
	})
	slices.SortFunc(targets, func(a, b *rolloutv1.Target) int {
		x, y := rollout.SilentSince(a).AsTime(), rollout.SilentSince(b).AsTime()
		return cmp.Or(x.Compare(y), cmp.Compare(a.ServerId, b.ServerId))
	})
	return func(yield func(string, time.Time) bool) {
		for _, t := range targets {
			counts := t.State == rolloutv1.TargetState_TARGET_STATE_REACHED ||
				t.State == rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
			if counts && !yield(t.ServerId, rollout.SilentSince(t).AsTime()) {
				return
			}
		}
	}
}

// closed returns why the environment of a server is closed, and until when.
func (in *input) closed(server string) (until time.Time, why string) {
	s, _ := in.reader.Server(server)
	state, known := in.doors[s.GetEnvironment()]
	if !known {
		e, _ := in.reader.Environment(s.GetEnvironment())
		if in.doors == nil {
			in.doors = map[string]window.State{}
		}
		state = window.At(e, in.now)
		in.doors[s.GetEnvironment()] = state
	}
	return state.Until, state.Why
}

// unprimed returns the pending servers that are online and were not asked to fetch ahead.
func (in *input) unprimed() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !in.reader.FetchesAhead() {
			return
		}
		for t := range in.reader.Unprimed(in.id) {
			s, _ := in.reader.Server(t.ServerId)
			if present(s) && !yield(t.ServerId) {
				return
			}
		}
	}
}

// ahead reports whether a server may fetch ahead now, and when it may next.
func (in *input) ahead(server string) (open bool, next time.Time) {
	s, _ := in.reader.Server(server)
	found, known := in.aheads[s.GetEnvironment()]
	if !known {
		e, _ := in.reader.Environment(s.GetEnvironment())
		if in.aheads == nil {
			in.aheads = map[string]fetching{}
		}
		found.open, found.next = window.Ahead(e, in.now)
		in.aheads[s.GetEnvironment()] = found
	}
	return found.open, found.next
}

func (in *input) field(server, field string) string {
	s, _ := in.reader.Server(server)
	return selector.Value(s, field)
}

// working returns how many living servers with a field's value work, and how many there are.
func (in *input) working(field, value string) (working, all int) {
	c := in.reader.Kept(field, value)
	return c.Working, c.All
}

// standing returns the keep budgets of a server's environment.
func (in *input) standing(server string) (out []rollout.Standing) {
	budgets, groups := in.reader.Budgets(server)
	for n, b := range budgets {
		out = append(out, rollout.Standing{Keep: b, Group: groups[n], Count: in.reader.InGroup(groups[n])})
	}
	return out
}

// refused returns why a rollout must no longer come to a server, or nil: a block, or an image that was disabled or
// deleted. An undo brings what ran before.
func (in *input) refused(server string) *apiv1.Refusal {
	t, _ := in.reader.Target(in.id, server)
	if r, _ := in.reader.Rollout(in.id); r.GetUndoes() != "" {
		return nil
	}
	s, _ := in.reader.Server(server)
	for n, c := range t.GetChanges() {
		if c.To == nil {
			continue
		}
		done := n < len(t.Done) && t.Done[n]
		if why := image.Withdrawn(in.reader, c.Agent, c.To); why != nil && !done && !instance.SameImage(c.From, c.To) {
			return why
		}
		digest, _ := hex.DecodeString(c.ToConfiguration)
		brings := block.Change{
			Agent: c.Agent, Image: c.To, Platform: s.GetSysinfo().GetPlatform(), Configuration: digest,
			NewImage:     !instance.SameImage(c.From, c.To),
			Reconfigured: c.ToConfiguration != c.FromConfiguration,
		}
		for _, build := range brings.Brought() {
			if b, ok := in.reader.Block(block.ID(build)); ok {
				return intent.Blocked(b)
			}
		}
	}
	return nil
}

func present(s *serverv1.Server) bool {
	return s.GetPresence() == serverv1.Presence_PRESENCE_ONLINE && s.GetLife() == serverv1.Life_LIFE_ALIVE &&
		!server.ShutOut(s)
}
