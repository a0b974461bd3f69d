package rollout

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Book is one rollout with its targets, in memory: what the registry's view is in production, the forecast and the
// property tests have in a book. The zero value is ready for the first part of a plan.
type Book struct {
	Rollout *rolloutv1.Rollout

	targets map[string]*rolloutv1.Target
	waves   [][]string           // the servers of each wave in the order of the plan; owed ones first, as wave 0
	heads   []int                // where the first pending one may be
	away    map[string]time.Time // the servers that are offline, with since when
	left    []absence            // of servers that were reached, the longest first
	back    []string             // the servers that are owed and online, sorted
	due     []string             // the servers on which the next step is due, sorted
}

type absence struct {
	server string
	since  time.Time
}

// Fold folds a fact about the rollout itself, and reports whether it fits.
func (b *Book) Fold(f ledger.Fact) bool {
	r, fit := noun.Apply(b.Rollout, f)
	if !fit {
		return false
	}
	b.Rollout = r
	switch body := f.Body.(type) {
	case *rolloutv1.Planned:
		b.place(body.Targets, f.At)
	case *rolloutv1.Extended:
		b.place(body.Targets, f.At)
	case *rolloutv1.Released:
		for _, id := range body.ServerIds {
			b.Apply(id, Event{Kind: Taken, At: f.At, Step: body.Step})
		}
	case *rolloutv1.Silenced:
		for _, id := range body.ServerIds {
			b.Apply(id, Event{Kind: Silent, At: f.At})
		}
	case *rolloutv1.Succeeded:
		for _, wave := range b.waves {
			for _, id := range wave {
				b.Apply(id, Event{Kind: Finished, At: f.At})
			}
		}
	}
	Settle(b.Rollout, f.At)
	return true
}

func (b *Book) place(targets []*rolloutv1.Target, at time.Time) {
	if b.targets == nil {
		b.targets = map[string]*rolloutv1.Target{}
	}
	for _, t := range targets {
		if b.targets[t.ServerId] != nil {
			continue
		}
		t = proto.CloneOf(t)
		if t.State = pending; t.Wave == 0 {
			t.State = owed
		}
		b.targets[t.ServerId] = t
		for len(b.waves) <= int(t.Wave) {
			b.waves, b.heads = append(b.waves, nil), append(b.heads, 0)
		}
		b.waves[t.Wave] = append(b.waves[t.Wave], t.ServerId)
		if Place(b.Rollout, t); !b.away[t.ServerId].IsZero() {
			Apply(b.Rollout, t, Event{Kind: Away, At: at})
		}
		b.ready(t)
	}
}

// Apply applies an event to a server, and reports whether its target moved.
func (b *Book) Apply(server string, e Event) bool {
	if b.away == nil {
		b.away = map[string]time.Time{}
	}
	switch e.Kind {
	case Away:
		if b.away[server].IsZero() {
			b.away[server] = e.At
		}
	case Back, Gone:
		delete(b.away, server)
	}
	t := b.targets[server]
	if t == nil {
		return false
	}
	moved := Apply(b.Rollout, t, e)
	if since := b.away[server]; !since.IsZero() && in(t.State, reached, succeeded) {
		b.miss(absence{server, since})
	}
	if t.UnseenSince != nil && t.State == reached {
		b.miss(absence{server, t.UnseenSince.AsTime()})
	}
	if b.ready(t); moved && t.State == pending {
		b.heads[t.Wave] = min(b.heads[t.Wave], slices.Index(b.waves[t.Wave], server))
	}
	return moved
}

// ready keeps a server among those that are owed and online and those on which the next step is due, or takes it out.
func (b *Book) ready(t *rolloutv1.Target) {
	b.back = listed(b.back, t.ServerId, t.State == owed && b.away[t.ServerId].IsZero())
	b.due = listed(b.due, t.ServerId, NextStep(t) > 0)
}

// listed returns a sorted list with or without a name.
func listed(list []string, name string, is bool) []string {
	i, known := slices.BinarySearch(list, name)
	switch {
	case is && !known:
		return slices.Insert(list, i, name)
	case known && !is:
		return slices.Delete(list, i, i+1)
	}
	return list
}

// miss notes that a server which was reached is away, unless it is noted.
func (b *Book) miss(a absence) {
	i, known := slices.BinarySearchFunc(b.left, a, func(x, y absence) int {
		return cmp.Or(x.since.Compare(y.since), strings.Compare(x.server, y.server))
	})
	if !known {
		b.left = slices.Insert(b.left, i, a)
	}
}

// Target returns a server's part in the rollout, or nil.
func (b *Book) Target(server string) *rolloutv1.Target { return b.targets[server] }

// Targets returns all targets, by wave, in the order of the plan.
func (b *Book) Targets() iter.Seq[*rolloutv1.Target] {
	return func(yield func(*rolloutv1.Target) bool) {
		for _, wave := range b.waves {
			for _, id := range wave {
				if !yield(b.targets[id]) {
					return
				}
			}
		}
	}
}

// Input returns what a decision rests on, without what keep budgets need.
func (b *Book) Input(now time.Time) Input {
	return Input{Rollout: b.Rollout, Now: now, Pending: b.pending, Returned: b.returned, Silent: b.silent, Due: b.isDue}
}

func (b *Book) pending(wave uint32) iter.Seq[string] {
	return func(yield func(string) bool) {
		if int(wave) >= len(b.waves) {
			return
		}
		servers, first := b.waves[wave], true
		for i := b.heads[wave]; i < len(servers); i++ {
			if b.targets[servers[i]].State != pending {
				continue
			}
			if first {
				b.heads[wave], first = i, false
			}
			if !yield(servers[i]) {
				return
			}
		}
	}
}

func (b *Book) returned() iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for _, id := range b.back {
			if !yield(id, b.targets[id].Wave) {
				return
			}
		}
	}
}

func (b *Book) isDue() iter.Seq[*rolloutv1.Target] {
	return func(yield func(*rolloutv1.Target) bool) {
		for _, id := range b.due {
			if !yield(b.targets[id]) {
				return
			}
		}
	}
}

func (b *Book) silent() iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		b.left = slices.DeleteFunc(b.left, func(a absence) bool {
			return !b.away[a.server].Equal(a.since) && !b.unseen(a)
		})
		listed := map[string]bool{}
		for _, a := range b.left {
			t := b.targets[a.server]
			if t == nil || !in(t.State, reached, succeeded) || listed[a.server] {
				continue
			}
			if listed[a.server] = true; !yield(a.server, a.since) {
				return
			}
		}
	}
}

// unseen reports whether an absence is that of an observation which is still awaited.
func (b *Book) unseen(a absence) bool {
	t := b.targets[a.server]
	return t.GetState() == reached && t.GetUnseenSince() != nil && t.UnseenSince.AsTime().Equal(a.since)
}
