package supervise

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

func init() { Shim(os.Args) }

// withSockets adds a listening socket to a slot, under two names.
func withSockets(t *testing.T, s Spec) Spec {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.Sockets = func() ([]string, []*os.File, error) {
		one, err := l.(*net.TCPListener).File()
		if err != nil {
			return nil, nil, err
		}
		two, err := l.(*net.TCPListener).File()
		return []string{"http", "admin"}, []*os.File{one, two}, err
	}
	return s
}

func TestAProcessGetsItsSocketsByTheProtocolOfSystemd(t *testing.T) {
	s := withSockets(
		t,
		shell(
			t,
			`echo $$ $LISTEN_PID $LISTEN_FDS $LISTEN_FDNAMES > said
			readlink /proc/$$/fd/3 /proc/$$/fd/4 >> said; sleep 60`,
		),
	)
	s.Env = append(s.Env, "LISTEN_PID=1", "LISTEN_FDS=7")
	pid := begin(t, startable(t, s))
	var said []string
	polltest.Eventually(t, "it printed what it got", func() bool {
		data, _ := os.ReadFile(filepath.Join(s.Dir, "said"))
		said = strings.Fields(string(data))
		return len(said) == 6
	})
	id := strconv.Itoa(pid)
	if got, want := strings.Join(said[:4], " "), id+" "+id+" 2 http:admin"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.HasPrefix(said[4], "socket:[") || said[4] != said[5] {
		t.Errorf("descriptors %v", said[4:6])
	}
}

func TestAProcessWithSocketsIsAdoptedWithItsSession(t *testing.T) {
	s := withSockets(t, shell(t, "sleep 60 & echo $! > child; wait"))
	pid := begin(t, startable(t, s))
	var child int
	polltest.Eventually(t, "the child runs", func() bool {
		data, _ := os.ReadFile(filepath.Join(s.Dir, "child"))
		child, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return child > 0
	})
	u := startable(t, s)
	adopted, err := u.Start()
	if err != nil || !adopted || u.Status().Pid != pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, u.Status().Pid, pid, err)
	}
	if got := members(s.Record); len(got) != 2 || got[0] != pid || got[1] != child {
		t.Errorf("its processes are %v, want %d and %d", got, pid, child)
	}
	if got := members(s.Record + "x"); len(got) != 0 {
		t.Errorf("no record has the processes %v", got)
	}
}

func TestAProgramThatCannotBeExecutedEndsWithAReason(t *testing.T) {
	s := withSockets(t, shell(t, ""))
	s.Path = filepath.Join(s.Dir, "nothing")
	u := startable(t, s)
	begin(t, u)
	<-u.Exited()
	said, _ := os.ReadFile(s.Output)
	if how := u.Status().LastEnd; how != "exit status 126" || !strings.Contains(string(said), unix.ENOENT.Error()) {
		t.Errorf("ended with %q, said %q", how, said)
	}
}

// A set-up that was started and could not be recorded, as on a full disk, must not run on beside the next one, which
// may be the set-up of the version before.
func TestASetUpThatCannotBeRecordedDoesNotRunOn(t *testing.T) {
	s := withSockets(t, shell(t, "exec sleep 60"))
	records := filepath.Join(s.Dir, "records")
	if err := os.Mkdir(records, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Record = filepath.Join(records, "process.json")
	give, token := s.Sockets, ""
	s.Sockets = func() ([]string, []*os.File, error) {
		r, _, err := readRecord(s.Record)
		token = r.Token
		if err := errors.Join(err, os.RemoveAll(records)); err != nil {
			return nil, nil, err
		}
		return give()
	}
	if err := new(starts).runOnce(s, nil); err == nil {
		t.Error("it succeeded without a record")
	}
	if left, err := proctree.Of(token); err != nil || token == "" || len(left) > 0 {
		t.Errorf("%v run on: %v", left, err)
	}
}
