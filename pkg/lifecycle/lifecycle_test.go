package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/lifecycle"
)

func waits(stopped *int) lifecycle.Part {
	return lifecycle.Part{Name: "waits", Run: func(ctx context.Context) error {
		<-ctx.Done()
		*stopped++
		return ctx.Err()
	}}
}

func TestTheFirstToReturnStopsAll(t *testing.T) {
	broken := errors.New("broken")
	for name, want := range map[string]error{"without an error": nil, "with an error": broken} {
		t.Run(name, func(t *testing.T) {
			stopped := 0
			err := lifecycle.Run(t.Context(), waits(&stopped), lifecycle.Part{Name: "returns", Run: func(context.Context) error { return want }})
			if !errors.Is(err, want) || stopped != 1 {
				t.Errorf("error %v, %d others stopped; want %v and 1", err, stopped, want)
			}
		})
	}
}

func TestToBeToldToStopIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := 0
	if err := lifecycle.Run(ctx, waits(&stopped)); err != nil {
		t.Error(err)
	}
}
