package operator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// The same as a terminal of 80×24 shows it: the question and the answer, and a rollout that goes on.
func TestTheScreensOfATerminalAreAsTheyWere(t *testing.T) {
	t.Parallel()
	t.Run("up-asked", func(t *testing.T) {
		t.Parallel()
		s := openScreen(t)
		ended := s.start(t.Context(), t, "up beacon@2.0.0 --on all")
		s.shows(t, "[y/N] ")
		if _, err := s.master.WriteString("y\n"); err != nil {
			t.Fatal(err)
		}
		if code := <-ended; code != cli.ExitOK {
			t.Errorf("exit code %d", code)
		}
		s.shows(t, "to undo: ")
		golden(t, "up-asked", s.text())
	})
	t.Run("rollout-live", func(t *testing.T) {
		t.Parallel()
		s := openScreen(t)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		ended := s.start(ctx, t, "watch "+toApprove)
		s.shows(t, "waits for")
		live := s.text()
		interrupt()
		<-ended
		golden(t, "rollout-live", live)
	})
}

// screen is a terminal, and what was printed on it.
type screen struct {
	master, slave *os.File
	mu            sync.Mutex
	printed       bytes.Buffer
}

func openScreen(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err == nil {
		err = unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 80, Row: 24})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{master: master, slave: slave}
	t.Cleanup(func() { _, _ = slave.Close(), master.Close() })
	go func() {
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			s.mu.Lock()
			s.printed.Write(part[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// start runs a command line on the terminal, and returns where its exit code comes.
func (s *screen) start(ctx context.Context, t *testing.T, line string) <-chan int {
	r, dir := startRunner(t), annsDirectory(t)
	env := cli.NewEnv(s.slave, s.slave, s.slave, func(name string) string {
		return map[string]string{"GARRISON_CONTEXT": dir + "/ctx.json", "HOME": dir, "NO_COLOR": "1"}[name]
	})
	env.Now = func() time.Time { return noon }
	env.Dial = func(o bus.Options) (*bus.Conn, error) { return r.bus.Dial(t, o.Name), nil }
	ended := make(chan int, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		ended <- run(ctx, env, strings.Fields(line))
	}()
	return ended
}

// shows waits until the terminal shows a text.
func (s *screen) shows(t *testing.T, want string) {
	t.Helper()
	polltest.Eventually(t, want, func() bool { return strings.Contains(s.text(), want) })
}

// text returns what is on the terminal: what was erased is no longer there.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, line := range strings.Split(strings.ReplaceAll(s.printed.String(), "\r\n", "\n"), "\n") {
		for {
			before, after, erased := strings.Cut(line, "\x1b[")
			if !erased {
				break
			}
			up := 0
			if _, err := fmt.Sscanf(after, "%dA", &up); err == nil { // up, and erase what is below
				lines = lines[:max(0, len(lines)-up)]
				_, after, _ = strings.Cut(after, "J")
			} else {
				_, after, _ = strings.Cut(after, "K")
			}
			_, line = before, after
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
