package rungroup_test

import (
	"context"
	"errors"
	"strings"
	"testing"

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
