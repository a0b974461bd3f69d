package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// noAnswer is the error of a call that was taken, perhaps, and not answered.
func noAnswer(after uint32) error {
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: code.NoAnswer, RetryAfterMs: after})
}

func TestWhatIsNotAnsweredIsRepeatedUntilItIs(t *testing.T) {
	t.Parallel()
	other := errors.New("no such server")
	busy := fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: code.Busy, RetryAfterMs: 1})
	lagging := fault.New(fault.Unavailable, "no leader")
	starting := fault.Refuse(fault.Unavailable, &apiv1.Refusal{Code: "LEDGER_BEHIND"})
	for _, c := range []struct {
		name    string
		answers []error // the last one is the outcome
		open    bool
	}{
		{"at once", []error{nil}, false},
		{"no process took it", []error{noAnswer(1), noAnswer(1), nil}, false},
		{"too many requests", []error{busy, nil}, false},
		{"the answer was lost", []error{noAnswer(0), noAnswer(1), nil}, true},
		{"an election", []error{lagging, nil}, true},
		{"a refusal", []error{noAnswer(1), other}, false},
		{"a refusal after a lost answer", []error{noAnswer(0), other}, true},
		{"a state that lasts", []error{starting}, false},
	} {
		client, tries := newClient(time.Minute), 0
		open, err := client.insist(t.Context(), time.Minute, func() error { tries++; return c.answers[tries-1] })
		if want := c.answers[len(c.answers)-1]; tries != len(c.answers) || !errors.Is(err, want) || open != c.open {
			t.Errorf("%s: %v, open %v after %d tries; want %v, open %v", c.name, err, open, tries, want, c.open)
		}
	}
}

func TestAnOutageIsWaitedOutOnceAndAnnouncedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, said := newClient(time.Second), 0
		c.OnWait(func(within time.Duration, _ error) {
			if said++; within != patienceOf*time.Second {
				t.Errorf("it waits %v", within)
			}
			c.OnWait(c.patience.onWait) // it may call the client
		})
		away := func() (time.Duration, error) {
			began := time.Now()
			_, err := c.insist(t.Context(), c.patience.within, func() error { return noAnswer(1) })
			return time.Since(began), err
		}
		first, err := away()
		if err == nil || first < patienceOf*time.Second || first > (patienceOf+1)*time.Second || said != 1 {
			t.Errorf("the first call: %v after %v, announced %d times", err, first, said)
		}
		if second, err := away(); err == nil || second > 0 || said != 1 {
			t.Errorf("the second call: %v after %v, announced %d times", err, second, said)
		}
		if _, err := c.insist(t.Context(), c.patience.within, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if next, _ := away(); next != first || said != 2 {
			t.Errorf("the next outage: %v, announced %d times", next, said)
		}
	})
}

// The service refuses each first question as the client does that gets no answer.
func TestACallIsRepeatedWithItsIDUnlessItsCallerAsksAgain(t *testing.T) {
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
	var requests sync.Map
	taken := func(caller bus.Caller) error {
		requests.Store(caller.Request, true)
		if asked.Add(1) == 1 {
			return noAnswer(0)
		}
		return nil
	}
	err = errors.Join(
		bus.Handle(s, "GetServer", func(
			_ context.Context, caller bus.Caller, _ *registryv1.GetServerRequest,
		) (*registryv1.GetServerResponse, error) {
			return &registryv1.GetServerResponse{}, taken(caller)
		}),
		bus.Handle(s, "PutRecord", func(
			_ context.Context, caller bus.Caller, _ *registryv1.PutRecordRequest,
		) (*registryv1.PutRecordResponse, error) {
			return &registryv1.PutRecordResponse{}, taken(caller)
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
		_, err := Call[*registryv1.PutRecordResponse](ctx, c, record.Create(&agentv1.Agent{}))
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
		{"a write", write, t.Context(), 2},
	} {
		asked.Store(0)
		requests.Clear()
		err := one.call(one.ctx)
		unanswered := fault.RefusalOf(err).GetCode() == code.NoAnswer
		if asked.Load() != one.tries || unanswered != (one.tries == 1) {
			t.Errorf("%s: %v after %d tries, want %d tries", one.name, err, asked.Load(), one.tries)
		}
		ids := 0
		requests.Range(func(any, any) bool { ids++; return true })
		if ids != 1 {
			t.Errorf("%s: its tries have %d ids, want one", one.name, ids)
		}
	}
}

// A bus that stands still may go on, and one that refuses may be started again; one that is not there is given up.
func TestABusThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for first, want := range map[time.Duration]int{connectTimeout + time.Second: 2, 0: 3} {
			tries, said := 0, 0
			_, err := Connect(t.Context(), Options{
				OnWait: func(time.Duration, error) { said++ },
				Dial: func(bus.Options) (*bus.Conn, error) {
					if tries++; tries < want {
						time.Sleep(first)
						return nil, fault.New(fault.Unavailable, "no answer")
					}
					return nil, fault.New(fault.Denied, "another answer")
				},
			})
			if err == nil || tries != want || said != 1 {
				t.Errorf("after %v: %d tries, announced %d times, %v; want %d tries", first, tries, said, err, want)
			}
		}
	})
}
