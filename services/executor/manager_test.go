package executor

import (
	"context"
	"errors"
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
)

// listens gives the manager of a process of which systemd would hear, and what it hears.
func listens(t *testing.T, watchdog time.Duration) (*manager, chan string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	heard := make(chan string, 1000)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			heard <- string(buf[:n])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	m := managerOf(Config{Args: []string{"executor"}, Log: zerolog.Nop()})
	if m == nil {
		t.Fatal("it hears of no manager")
	}
	return m, heard
}

func hears(t *testing.T, heard chan string) string {
	t.Helper()
	select {
	case s := <-heard:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was said for 10 s")
		return ""
	}
}

func TestAManagerHearsThatTheExecutorLivesWhileItDoes(t *testing.T) {
	m, heard := listens(t, 200*time.Millisecond)
	m.up()
	if got := hears(t, heard); got != "WATCHDOG_USEC=1800000000\nWATCHDOG=1\nREADY=1" {
		t.Errorf("up: %q", got)
	}
	const lives = "WATCHDOG_USEC=200000\nWATCHDOG=1"
	asked, ready := make(chan error), make(chan struct{})
	parts := m.watched(ready, func(ctx context.Context) error {
		select {
		case err := <-asked:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	go func() { ends <- parts[0].Run(ctx) }()
	select {
	case asked <- nil:
		t.Fatal("it looks before it is ready")
	case <-time.After(20 * time.Millisecond):
	}
	close(ready)
	asked <- nil
	if got := hears(t, heard); got != lives {
		t.Errorf("alive: %q", got)
	}
	asked <- errors.New("the disk is gone") // and nothing is said
	asked <- nil
	if got := hears(t, heard); got != lives || len(heard) != 0 {
		t.Errorf("alive again: %q, and %d words more", got, len(heard))
	}
	m.expect(time.Minute)
	m.leave()
	if a, b := hears(t, heard), hears(t, heard); a != "WATCHDOG_USEC=60000000\nWATCHDOG=1" || b != "WATCHDOG_USEC=0" {
		t.Errorf("a long wait and the end of the watch: %q, %q", a, b)
	}
	cancel()
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestOnlyTheProcessThatAManagerStartedSpeaksToIt(t *testing.T) {
	for name, c := range map[string]struct {
		cfg             Config
		env             [2]string
		speaks, watched bool
	}{
		"it":                      {Config{Args: []string{"x"}}, [2]string{}, true, true},
		"one that is not only":    {Config{}, [2]string{}, false, false},
		"one on trial":            {Config{Args: []string{"x"}}, [2]string{trialVariable, "1s"}, false, false},
		"one nobody listens to":   {Config{Args: []string{"x"}}, [2]string{"NOTIFY_SOCKET", ""}, false, false},
		"one that is not watched": {Config{Args: []string{"x"}}, [2]string{"WATCHDOG_USEC", ""}, true, false},
		"a child of the watched":  {Config{Args: []string{"x"}}, [2]string{"WATCHDOG_PID", "1"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			listens(t, time.Minute)
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			m := managerOf(c.cfg)
			if (m != nil) != c.speaks || (len(m.watched(nil, nil)) == 1) != c.watched {
				t.Errorf("manager %+v", m)
			}
		})
	}
}

// The real engine's loop answers while it turns, and not when it does not.
func TestAnExecutorWhoseLoopStandsIsNotAlive(t *testing.T) {
	m, heard := listens(t, time.Hour)
	x := New(Config{Root: t.TempDir(), Anonymous: &Server{Cell: "main", Server: judged}, URL: "nats://127.0.0.1:1", Log: zerolog.Nop()})
	x.manager = m
	stands, goOn := make(chan struct{}), make(chan struct{})
	x.cfg.FailPoint = func(point string) {
		if point == "recovered" { // the loop has not begun yet
			close(stands)
			<-goOn
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error, 1)
	go func() { ends <- x.Run(ctx) }()
	if got := hears(t, heard); !strings.Contains(got, "READY=1") {
		t.Errorf("up: %q", got)
	}
	if got := hears(t, heard); got != "WATCHDOG_USEC=3600000000\nWATCHDOG=1" { // as one was watched before that had no identity
		t.Errorf("before it opens the journal: %q", got)
	}
	<-stands
	select {
	case got := <-heard:
		t.Errorf("while its loop stands it says %q", got)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if got := hears(t, heard); got != "WATCHDOG_USEC=3600000000\nWATCHDOG=1" {
		t.Errorf("when it turns it says %q", got)
	}
	cancel()
	if err := <-ends; err != nil {
		t.Error(err)
	}
}

func TestADiskThatIsFullIsNoReasonToStartAnew(t *testing.T) {
	for err, excused := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EROFS: false} {
		if got := unlessFull(fmt.Errorf("write: %w", err)); (got == nil) != excused {
			t.Errorf("%v: %v", err, got)
		}
	}
}
