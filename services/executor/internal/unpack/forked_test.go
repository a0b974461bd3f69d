package unpack_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// Processes that are forked while files are written must not keep those files from being
// executed: a child has every descriptor of its parent until it executes its own program.
func TestWhatWasUnpackedCanBeExecutedAtOnceWhileOthersAreStarted(t *testing.T) {
	const forkers, rounds, within = 8, 200, 4 * time.Second
	script := append([]byte("#!/bin/sh\nexit 0\n"), bytes.Repeat([]byte("#\n"), 1<<20)...)
	archive := imagetest.Pack(t, imagetest.Regular("run", 0o755, script))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range forkers {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("/bin/true").Run()
				}
			}
		})
	}
	defer all.Wait()
	defer close(stop)
	limits := unpack.Limits{Entries: 1, Bytes: uint64(len(script))}
	for end, n := time.Now().Add(within), 0; n < rounds && time.Now().Before(end); n++ {
		dir := t.TempDir()
		if err := unpack.Unpack(t.Context(), bytes.NewReader(archive), dir, limits); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(filepath.Join(dir, "run")).Run(); errors.Is(err, syscall.ETXTBSY) {
			t.Fatalf("round %d: %v", n, err)
		} else if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
