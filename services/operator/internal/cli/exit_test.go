package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	refusal := &apiv1.Refusal{Code: "X", Component: "registry", Message: "no"}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{Usage("x"), 2},
		{fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}), 2},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, 1},
		{Ended(3), 3},
		{fmt.Errorf("x: %w", fault.Refuse(fault.Denied, refusal)), 4},
		{Exit{Code: 7, Err: ErrWaited}, 7},
		{fault.Refuse(fault.Conflict, refusal), 8},
		{fault.Refuse(fault.NotFound, refusal), 1},
		{fault.Refuse(fault.Unavailable, refusal), 1},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: have %d, want %d", c.err, got, c.want)
		}
	}
}

func TestOnlyTheCommandLinesOwnErrorsNameIt(t *testing.T) {
	refusal := &apiv1.Refusal{Code: "NO", Component: "image-catalog", Message: "m", Try: "t"}
	for want, err := range map[string]error{
		"image-catalog: NO: m. Try: t": fmt.Errorf("import: %w", fault.Refuse(fault.NotFound, refusal)),
		"garrison: m":                  errors.New("m"),
	} {
		if got := LineOf(err); got != want {
			t.Errorf("have %q, want %q", got, want)
		}
	}
}
