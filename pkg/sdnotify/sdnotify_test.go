package sdnotify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// listen returns the notifier of a process that systemd started, and the messages that it sends.
func listen(t *testing.T, watchdog time.Duration) (*Notifier, chan string) {
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
			size, err := conn.Read(buf)
			if err != nil {
				return
			}
			messages <- string(buf[:size])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	n := FromEnv(zerolog.Nop())
	if n == nil {
		t.Fatal("no notifier")
	}
	return n, messages
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

func TestAProcessThatWaitsForAPersonIsNotWatched(t *testing.T) {
	n, messages := listen(t, time.Minute)
	n.Waits("waits in the lobby")
	for _, want := range []string{"WATCHDOG_USEC=0", "READY=1\nSTATUS=waits in the lobby"} {
		if got := next(t, messages); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheManagerIsNotifiedWhileTheProcessIsAlive(t *testing.T) {
	n, messages := listen(t, 200*time.Millisecond)
	n.Ready()
	if got := next(t, messages); got != "WATCHDOG_USEC=1800000000\nWATCHDOG=1\nREADY=1\nSTATUS=" {
		t.Errorf("up: %q", got)
	}
	const lives = "WATCHDOG_USEC=200000\nWATCHDOG=1"
	asked, ready := make(chan error), make(chan struct{})
	parts := n.Watched(ready, func(ctx context.Context) error {
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
		t.Fatal("it checks before it is ready")
	case <-time.After(20 * time.Millisecond):
	}
	close(ready)
	asked <- nil
	if got := next(t, messages); got != lives {
		t.Errorf("alive: %q", got)
	}
	asked <- errors.New("the disk is gone") // no message follows
	asked <- nil
	if got := next(t, messages); got != lives || len(messages) != 0 {
		t.Errorf("alive again: %q, and %d more messages", got, len(messages))
	}
	n.Expect(time.Minute)
	n.Leave()
	if a, b := next(
		t, messages,
	), next(t, messages); a != "WATCHDOG_USEC=60000000\nWATCHDOG=1" || b != "WATCHDOG_USEC=0" {
		t.Errorf("a long wait and the end of the watch: %q, %q", a, b)
	}
	cancel()
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("Watched returned %v", err)
	}
}

func TestOnlyTheProcessThatTheManagerStartedNotifiesIt(t *testing.T) {
	for name, c := range map[string]struct {
		variable, value   string
		notifies, watched bool
	}{
		"the process":          {"", "", true, true},
		"without a socket":     {"NOTIFY_SOCKET", "", false, false},
		"without a watch":      {"WATCHDOG_USEC", "", true, false},
		"a child of a watched": {"WATCHDOG_PID", "1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, time.Minute)
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			n := FromEnv(zerolog.Nop())
			if (n != nil) != c.notifies || (len(n.Watched(nil, nil)) == 1) != c.watched {
				t.Errorf("notifier %+v", n)
			}
		})
	}
}
