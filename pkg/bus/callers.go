package bus

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// callsPerActor bounds how many requests of one actor a service has at a time, handled or waiting for a slot.
	callsPerActor = 16
	// busyAnswers is how many requests of an actor are refused within a second. More of them are dropped, because an
	// answer to each costs as much as the request.
	busyAnswers = 50
	// busyAfter is when a refused request may be repeated.
	busyAfter = 100 * time.Millisecond
)

// callers keeps one actor's requests from those of others: a service takes every message at once, and either handles
// it, refuses it or drops it, so that no request waits behind another actor's.
type callers struct {
	answers *pace.Pace // refusals
	lines   *pace.Pace // of the log

	mu   sync.Mutex
	with map[string]int // requests by actor
}

func newCallers() *callers {
	return &callers{
		answers: pace.New(busyAnswers, time.Second), lines: pace.New(1, time.Minute), with: map[string]int{},
	}
}

// enter reports whether a request of an actor is taken. The caller then calls leave.
func (c *callers) enter(actor string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.with[actor] >= callsPerActor {
		return false
	}
	c.with[actor]++
	return true
}

func (c *callers) leave(actor string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.with[actor]--; c.with[actor] == 0 {
		delete(c.with, actor)
	}
}

// take handles a request in a goroutine of its own when its actor has not too many of them.
func (s *Service) take(r micro.Request, answer func(micro.Request)) {
	actor := topology.ActorOf(r.Subject())
	if !s.callers.enter(actor) {
		s.busy(r, actor)
		return
	}
	go func() {
		defer s.callers.leave(actor)
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		answer(r)
	}()
}

// busy refuses a request as one too many, or drops it.
func (s *Service) busy(r micro.Request, actor string) {
	if more, ok := s.callers.lines.Take(actor); ok {
		s.conn.log.Warn().Str("actor", actor).Uint64("refused_before", more).Msg("too many requests of one actor")
	}
	if _, ok := s.callers.answers.Take(actor); ok {
		s.refuse(r, fault.Refuse(fault.Unavailable, &apiv1.Refusal{
			Code: code.Busy, RetryAfterMs: uint32(busyAfter.Milliseconds()), Try: "the same command again",
			Message: fmt.Sprintf("%s has %d requests under way, which is the most for one actor", actor, callsPerActor),
		}))
	}
}
