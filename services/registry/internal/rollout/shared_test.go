package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// crowd is two or three rollouts of different agents on the same servers, each with the same keep budget. What an
// engine knows of the others is of an earlier moment; a release is recorded only if no rollout recorded anything since,
// as the guard of the registry has it.
type crowd struct {
	*rapid.T
	servers  int
	budget   *rolloutv1.Keep
	books    []*rollout.Book
	underWay []map[string]bool // by rollout
	facts    int               // how many were recorded
	looks    []look            // by rollout
}

// look is what an engine saw of the fleet.
type look struct {
	facts int
	busy  map[string]bool
}

func TestRolloutsThatShareAKeepBudgetNeverBreakItTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{T: t, servers: rapid.IntRange(1, 12).Draw(t, "servers"), budget: &rolloutv1.Keep{
			Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{
				Percent: uint32(rapid.IntRange(0, 100).Draw(t, "percent")),
			}},
		}}
		for range rapid.IntRange(2, 3).Draw(t, "rollouts") {
			c.plan()
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			c.step(rapid.IntRange(0, len(c.books)-1).Draw(t, "rollout"))
		}
	})
}

func (c *crowd) plan() {
	how := &rolloutv1.Strategy{
		Keep: []*rolloutv1.Keep{c.budget}, Concurrency: uint32(rapid.IntRange(0, 3).Draw(c.T, "concurrency")),
	}
	p := &rolloutv1.Planned{
		Part: 1, Parts: 1, Waves: []uint32{uint32(c.servers)}, Strategy: rollout.Filled(how),
	}
	for n := range c.servers {
		p.Targets = append(p.Targets, &rolloutv1.Target{ServerId: fmt.Sprint("s", n), Wave: 1})
	}
	b := &rollout.Book{}
	b.Fold(ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: p})
	c.books, c.underWay = append(c.books, b), append(c.underWay, map[string]bool{})
	c.looks = append(c.looks, c.see())
}

func (c *crowd) see() look {
	l := look{facts: c.facts, busy: map[string]bool{}}
	for _, servers := range c.underWay {
		for id := range servers {
			l.busy[id] = true
		}
	}
	return l
}

// step lets an engine look at the fleet, decide on its last look, or ends a change.
func (c *crowd) step(n int) {
	switch rapid.IntRange(0, 4).Draw(c.T, "step") {
	case 0, 1:
		c.looks[n] = c.see()
	case 2, 3:
		c.decide(n)
	case 4:
		for id := range c.underWay[n] {
			delete(c.underWay[n], id)
			c.books[n].Apply(id, rollout.Event{Kind: rollout.Ended, OK: true, At: time.Unix(2, 0)})
			break
		}
	}
}

func (c *crowd) decide(n int) {
	l, b := c.looks[n], c.books[n]
	in := b.Input(time.Unix(1, 0))
	in.Field = func(string, string) string { return "prod" }
	in.Works = func(server string) bool { return !l.busy[server] }
	in.Working = func(string, string) (int, int) { return c.servers - len(l.busy), c.servers }
	d := rollout.Decide(in)
	if !d.Acts() || c.facts != l.facts {
		return // the guard of what it would record
	}
	c.facts++
	switch {
	case d.Open > 0:
		c.fold(b, &rolloutv1.Opened{Wave: d.Open})
	case len(d.Release) > 0:
		c.release(n, d)
	}
}

func (c *crowd) fold(b *rollout.Book, body proto.Message) {
	b.Fold(ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body, At: time.Unix(1, 0)})
}

func (c *crowd) release(n int, d rollout.Decision) {
	before := len(c.see().busy)
	for _, id := range d.Release {
		c.underWay[n][id] = true
	}
	c.fold(c.books[n], &rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release})
	after, needed := len(c.see().busy), keep.Needed(c.budget, c.servers)
	if after > before && c.servers-after < needed {
		c.Fatalf("%d of %d servers work after a release by rollout %d; %d must", c.servers-after, c.servers, n, needed)
	}
}
