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
	// bytesPerActor bounds how many bytes these requests have together: decoded, a request can take 25 times as much.
	// It lets an actor import an image with four chunks at a time, and each message of any size alone.
	bytesPerActor = 4*topology.ChunkSize + 256<<10
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
	with map[string]load // by actor
}

// load is requests under way.
type load struct{ requests, bytes int }

// takes reports whether one more request may be under way.
func (l load) takes(bytes int) bool {
	return l.requests < callsPerActor && (l.bytes == 0 || l.bytes+bytes <= bytesPerActor)
}

func newCallers() *callers {
	return &callers{
		answers: pace.New(busyAnswers, time.Second), lines: pace.New(1, time.Minute), with: map[string]load{},
	}
}

// enter reports whether a request of an actor is taken. The caller then calls leave.
func (c *callers) enter(actor string, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.with[actor]
	if !is.takes(bytes) {
		return false
	}
	c.with[actor] = load{is.requests + 1, is.bytes + bytes}
	return true
}

func (c *callers) leave(actor string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.with[actor]
	if is = (load{is.requests - 1, is.bytes - bytes}); is.requests == 0 {
		delete(c.with, actor)
	} else {
		c.with[actor] = is
	}
}

// take handles a request in a goroutine of its own when its actor has not too many of them.
func (s *Service) take(r micro.Request, answer func(micro.Request)) {
	actor := topology.ActorOf(r.Subject())
	bytes := len(r.Data())
	if !s.callers.enter(actor, bytes) {
		s.busy(r, actor)
		return
	}
	s.open.Add(1)
	go func() {
		defer s.open.Add(-1)
		defer s.callers.leave(actor, bytes)
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
			Message: fmt.Sprintf("%s has %d requests or %d KiB of them under way, which is the most for one actor",
				actor, callsPerActor, bytesPerActor>>10),
		}))
	}
}
