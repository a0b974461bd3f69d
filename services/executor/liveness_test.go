package executor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/sdnotify"
)

// managed returns a channel with the messages of this process to a service manager that watches it.
func managed(t *testing.T, watchdog time.Duration) chan string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	messages := make(chan string, 1000)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			messages <- string(buf[:n])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	return messages
}

func next(t *testing.T, messages chan string) string {
	t.Helper()
	select {
	case s := <-messages:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no message for a minute")
		return ""
	}
}

// Only a process that is an executor and nothing else, and not a candidate, notifies the manager.
func TestOnlyAnExecutorOfItsOwnNotifiesTheManager(t *testing.T) {
	managed(t, time.Minute)
	for _, c := range []struct {
		cfg      Config
		trial    string
		notifies bool
	}{{Config{Args: []string{"x"}}, "", true}, {Config{}, "", false}, {Config{Args: []string{"x"}}, "1s", false}} {
		t.Setenv("GARRISON_TRIAL", c.trial)
		if x := New(c.cfg); (x.notifier != nil) != c.notifies {
			t.Errorf("args %v, trial %q: notifier %+v", c.cfg.Args, c.trial, x.notifier)
		}
	}
}

// The loop of a real engine answers only while it turns.
func TestAnExecutorWhoseLoopHangsIsNotAlive(t *testing.T) {
	messages := managed(t, time.Hour)
	x := New(Config{
		Root:      t.TempDir(),
		Anonymous: &Server{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000007"},
		URL:       "nats://127.0.0.1:1",
		Log:       zerolog.Nop(),
	})
	x.notifier = sdnotify.FromEnv(zerolog.Nop())
	hangs, resume := make(chan struct{}), make(chan struct{})
	x.cfg.FailPoint = func(point string) {
		if point == "recovered" { // the loop has not begun yet
			close(hangs)
			<-resume
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	go func() { ends <- x.Run(ctx) }()
	if got := next(t, messages); !strings.Contains(got, "READY=1") {
		t.Errorf("up: %q", got)
	}
	// an executor without an identity may have been watched before
	if got := next(t, messages); got != "WATCHDOG_USEC=3600000000\nWATCHDOG=1" {
		t.Errorf("before it opens the journal: %q", got)
	}
	<-hangs
	select {
	case got := <-messages:
		t.Errorf("while its loop hangs it sends %q", got)
	case <-time.After(50 * time.Millisecond):
	}
	close(resume)
	if got := next(t, messages); got != "WATCHDOG_USEC=3600000000\nWATCHDOG=1" {
		t.Errorf("when it turns it sends %q", got)
	}
	cancel()
	if err := <-ends; err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsNoReasonToRestart(t *testing.T) {
	t.Parallel()
	for err, excused := range map[error]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EROFS: false,
	} {
		if got := unlessFull(fmt.Errorf("write: %w", err)); (got == nil) != excused {
			t.Errorf("%v: %v", err, got)
		}
	}
}
