package systemd

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// A bus that accepts connections and never answers, like a stopped one, blocks no caller without end, and a unit's
// status stays readable meanwhile.
func TestABusThatNeverAnswersIsAbandoned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := &Supervisor{bus: &bus{}, direct: supervise.NewDirect(layout.Root(t.TempDir()), supervise.DefaultPolicy)}
	u := s.unit(
		supervise.Spec{
			Agent:  "agent",
			Image:  "0197b5a0-0000-7000-8000-000000000001",
			Record: filepath.Join(t.TempDir(), "process.json"),
		},
		zerolog.Nop(),
		func() {},
	)
	const asking = 4
	stopped := make(chan error, asking)
	go func() { stopped <- u.Stop() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	status := make(chan supervise.Status, 1)
	go func() { status <- u.Status() }()
	select {
	case <-status:
	case <-time.After(connectWithin / 2):
		t.Error("its status is not readable")
	}
	for range asking - 1 { // concurrent callers wait for the same answer
		go func() {
			_, err := s.bus.state("agent")
			stopped <- err
		}()
	}
	late := time.After((asking - 1) * connectWithin)
	for range asking {
		select {
		case err := <-stopped:
			if err == nil {
				t.Error("the bus counts as reachable")
			}
		case <-late:
			t.Fatal("a call still waits for the bus")
		}
	}
}
