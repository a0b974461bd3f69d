package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// noAnswer is the error of a call that was taken, perhaps, and not answered.
func noAnswer(after uint32) error {
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: code.NoAnswer, RetryAfterMs: after})
}

func TestAReadIsRepeatedUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	tries := 0
	err := untilAnswered(t.Context(), time.Hour, func() error {
		if tries++; tries < 3 {
			return noAnswer(0)
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%v after %d tries, want an answer to the third", err, tries)
	}
}

func TestAReadIsNotRepeatedForLongNorAfterAnAnswer(t *testing.T) {
	t.Parallel()
	other := errors.New("no such server")
	for _, c := range []struct {
		name   string
		within time.Duration
		answer error
	}{
		{"the time has passed", 0, noAnswer(0)},
		{"no process took it, which was repeated before", time.Hour, noAnswer(100)},
		{"a refusal", time.Hour, other},
	} {
		tries := 0
		err := untilAnswered(t.Context(), c.within, func() error { tries++; return c.answer })
		if tries != 1 || !errors.Is(err, c.answer) {
			t.Errorf("%s: %v after %d tries, want one", c.name, err, tries)
		}
	}
}

// The service refuses each first question as the client does that gets no answer.
func TestOnlyAReadWhoseCallerDoesNotAskAgainIsRepeated(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	registry := b.Dial(t, ledger.Registry)
	s, err := registry.NewService(ledger.Registry, "v1.0.0", Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	if err := facts.Serve(s, registry); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	taken := func() error {
		if asked.Add(1) == 1 {
			return noAnswer(0)
		}
		return nil
	}
	err = errors.Join(
		bus.Handle(s, "GetServer", func(
			context.Context, bus.Caller, *registryv1.GetServerRequest,
		) (*registryv1.GetServerResponse, error) {
			return &registryv1.GetServerResponse{}, taken()
		}),
		bus.Handle(s, "CreateAgent", func(
			context.Context, bus.Caller, *registryv1.CreateAgentRequest,
		) (*registryv1.CreateAgentResponse, error) {
			return &registryv1.CreateAgentResponse{}, taken()
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	c := New(b.Dial(t, "ann"), time.Minute)
	read := func(ctx context.Context) error {
		_, err := c.Server(ctx, "web-1")
		return err
	}
	write := func(ctx context.Context) error {
		_, err := Call[*registryv1.CreateAgentResponse](ctx, c, &registryv1.CreateAgentRequest{})
		return err
	}
	for _, one := range []struct {
		name  string
		call  func(context.Context) error
		ctx   context.Context
		tries int32
	}{
		{"a read", read, t.Context(), 2},
		{"a read of a loop that asks again", read, context.WithValue(t.Context(), askedAgain{}, true), 1},
		{"a write", write, t.Context(), 1},
	} {
		asked.Store(0)
		err := one.call(one.ctx)
		unanswered := fault.RefusalOf(err).GetCode() == code.NoAnswer
		if asked.Load() != one.tries || unanswered != (one.tries == 1) {
			t.Errorf("%s: %v after %d tries, want %d tries", one.name, err, asked.Load(), one.tries)
		}
	}
}
