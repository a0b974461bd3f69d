package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// programs are the sources of the programs of a fleet.
var programs = []string{
	"deploy/allinone/cmd/garrisond", "services/operator/cmd/garrison", "services/registry/cmd/registry",
	"services/image-catalog/cmd/image-catalog", "services/task-dispatcher/cmd/task-dispatcher",
	"services/access/cmd/access", "services/executor/cmd/executor", "services/executor/simulation/garrison-sim",
	"e2e/agents/beacon", "e2e/cmd/rig",
}

// Programs returns the directory of the programs under test: that of make, which GARRISON_BIN
// names, or a temporary one in which it builds them. The caller calls remove at the end.
func Programs(ctx context.Context) (dir string, remove func(), err error) {
	if dir := os.Getenv("GARRISON_BIN"); dir != "" {
		return dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "garrison-bin-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	args := []string{"build", "-o", dir + "/"}
	for _, source := range programs {
		args = append(args, "github.com/garrison-fleet/garrison/"+source)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return dir, remove, nil
}

// Temporary does something with a fleet in a new directory, which was not started. It closes the fleet and deletes the
// directory; the error of what went wrong says where logs and data are instead.
func Temporary(o Options, do func(*Fleet) error) (err error) {
	if o.Dir, err = os.MkdirTemp("", "garrison-"); err != nil {
		return err
	}
	f, err := New(o)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("%w\n(everything is stopped; logs and data are in %s)", err, o.Dir)
			return
		}
		err = os.RemoveAll(o.Dir)
	}()
	return do(f)
}

// Until retries until done returns no error, or ctx ends. It pauses for an eighth of the time that has passed, so that
// waiting costs little.
func Until(ctx context.Context, what string, done func(context.Context) error) error {
	began := time.Now()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if Sleep(ctx, max(time.Since(began)/8, 10*time.Millisecond)) != nil {
			return fmt.Errorf("wait until %s: %w (last: %w)", what, ctx.Err(), err)
		}
	}
}

// until is Until for a minute at most.
func until(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return Until(ctx, what, done)
}

// Sleep waits. It returns an error when ctx ends meanwhile.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
