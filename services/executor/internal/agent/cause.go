package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/listening"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// cause returns what keeps a version from running now, as far as the executor can know: something else holds the
// address of its health check, its program is missing, or a file is missing that its arguments
// name, which is a guess and is not shown.
func (p *Processes) cause(v Version) supervise.Cause {
	if c := p.portCause(v); c.Gone != nil {
		return c
	}
	run, err := p.Fill(v)
	if err != nil {
		return supervise.Cause{}
	}
	program := p.Path(v, run.Command)
	if missing(program) {
		return supervise.Cause{
			What: program + " is missing", Gone: func() bool { return !missing(program) },
		}
	}
	var files []string
	for _, arg := range run.Args {
		_, value, _ := strings.Cut(arg, "=")
		for _, path := range []string{arg, value} {
			if filepath.IsAbs(path) && missing(path) {
				files = append(files, path)
			}
		}
	}
	if files == nil {
		return supervise.Cause{}
	}
	return supervise.Cause{Gone: func() bool { return !slices.ContainsFunc(files, missing) }}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// portCause returns that something else holds the address of a version's health check, or nothing.
func (p *Processes) portCause(v Version) supervise.Cause {
	ctx := context.Background() // the look-up of the address has a bound
	spec, err := p.Specs.Probe(v, nil)
	if err != nil || spec.Address() == "" {
		return supervise.Cause{}
	}
	for _, at := range resolve(ctx, spec.Address()) {
		h := p.holder(v, at)
		if h == nil {
			continue
		}
		held := listening.At(at)
		return supervise.Cause{
			What: fmt.Sprintf("%s is held by %s", at, h),
			Gone: func() bool { return !slices.Equal(listening.At(at), held) },
		}
	}
	return supervise.Cause{}
}
