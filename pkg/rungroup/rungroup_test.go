package rungroup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// waits returns a part that runs until it is stopped, and counts that.
func waits(stopped *int) rungroup.Part {
	return rungroup.Part{Name: "waits", Run: func(ctx context.Context) error {
		<-ctx.Done()
		*stopped++
		return ctx.Err()
	}}
}

// returns makes a part that returns err at once.
func returns(err error) rungroup.Part {
	return rungroup.Part{Name: "returns", Run: func(context.Context) error { return err }}
}

func TestTheFirstToReturnStopsAll(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		part rungroup.Part
		want string
	}{
		"with an error": {returns(broken), "returns: broken"},
		"with nil":      {returns(nil), "returns: returned before it was stopped"},
		"with ErrDone":  {returns(rungroup.ErrDone), ""},
		"canceled, but not by the group": {
			returns(context.Canceled), "returns: context canceled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stopped, got := 0, ""
			if err := rungroup.Run(t.Context(), waits(&stopped), c.part); err != nil {
				got = err.Error()
			}
			if got != c.want || stopped != 1 {
				t.Errorf("error %q, %d others stopped; want %q and 1", got, stopped, c.want)
			}
		})
	}
}

func TestAPartThatReturnsNilInANestedGroupIsNamedByBoth(t *testing.T) {
	inner := rungroup.Part{Name: "service", Run: func(ctx context.Context) error {
		return rungroup.Run(ctx, returns(nil))
	}}
	if err := rungroup.Run(t.Context(), inner); err == nil || !strings.HasPrefix(err.Error(), "service: returns: ") {
		t.Errorf("error %v", err)
	}
}

func TestCancellationIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := 0
	if err := rungroup.Run(ctx, waits(&stopped), returns(nil)); err != nil {
		t.Error(err)
	}
}

// A part of the base runs until the others have returned: they finish with its help what they have begun.
func TestTheBaseIsStoppedLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	finish, served := make(chan struct{}), make(chan struct{})
	baseEnded, inTime := false, true
	base := rungroup.Part{Name: "writer", Base: true, Run: func(ctx context.Context) error {
		<-ctx.Done()
		select {
		case <-served:
		default:
			inTime = false
		}
		baseEnded = true
		return nil
	}}
	service := rungroup.Part{Name: "service", Run: func(ctx context.Context) error {
		<-ctx.Done()
		<-finish
		close(served)
		return nil
	}}
	cancel()
	time.AfterFunc(20*time.Millisecond, func() { close(finish) })
	if err := rungroup.Run(ctx, base, service); err != nil || !baseEnded || !inTime {
		t.Errorf("%v; the base ended: %v, behind the service: %v", err, baseEnded, inTime)
	}
}

// A part of the base that fails stops the others too.
func TestAFailureOfTheBaseEndsTheGroup(t *testing.T) {
	stopped, broken := 0, returns(errors.New("broken"))
	broken.Base = true
	if err := rungroup.Run(t.Context(), waits(&stopped), broken); err == nil || stopped != 1 {
		t.Errorf("%v, %d others stopped", err, stopped)
	}
}
