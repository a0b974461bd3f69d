package reaper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// parentVariable makes a test binary the parent of orphans.
const parentVariable = "GARRISON_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	if err := beParent(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// beParent adopts orphans while it starts programs of its own, and reports what went wrong.
func beParent() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx) }()
	late := exec.Command("sh", "-c", "exit 3")
	if err := late.Start(); err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		all.Go(func() {
			for range 20 {
				var exit *exec.ExitError
				err := exec.Command("sh", "-c", "sleep 0.02 & exit 3").Run()
				if !errors.As(err, &exit) || exit.ExitCode() != 3 {
					errs[n] = fmt.Errorf("a program of its own: %w", err)
				}
			}
		})
	}
	all.Wait()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := proctree.Zombies(os.Getpid())
		if len(left) == 1 && left[0].Pid == late.Process.Pid {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("zombies are left: %v; want only %d, which is to be waited for", left, late.Process.Pid)
		}
	}
	if err := late.Wait(); late.ProcessState.ExitCode() != 3 {
		return fmt.Errorf("a program that is waited for late: %w", err)
	}
	stop()
	return errors.Join(append(errs, <-ended)...)
}

func TestOrphansAreWaitedForAndOwnProgramsAreNot(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAProcessThatAdoptsNoOrphansReapsNone(t *testing.T) {
	t.Parallel()
	if Adopts() {
		t.Skip("it is process 1")
	}
	if err := Run(t.Context()); err != nil {
		t.Error(err)
	}
}
