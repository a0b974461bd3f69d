package systemd

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

func TestThePollingOfSystemdSlowsDownAndIsReportedOnceWhenStuck(t *testing.T) {
	var p polling
	var all time.Duration
	reports := 0
	for n := range 100 {
		wait, stuck := p.next()
		if want := min(pollOften<<min(n, 20), pollSeldom); wait != want {
			t.Fatalf("wait %d is %s, want %s", n, wait, want)
		}
		all += wait
		if stuck {
			reports++
			if all <= stuckAfter {
				t.Errorf("it is reported after %s", all)
			}
		}
	}
	if reports != 1 {
		t.Errorf("it is reported %d times in %s, want once", reports, all)
	}
}

// A bus that accepts connections and does not answer is polled less and less often.
func TestASilentBusIsPolledLessAndLessOften(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	asked := make(chan time.Time, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked <- time.Now()
			_ = conn.Close()
		}
	}()
	u := &unit{
		of:      &Supervisor{bus: &bus{}},
		name:    "garrison-test.service",
		log:     zerolog.Nop(),
		changed: func() {},
		spec:    supervise.Spec{},
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		u.again(stop, 0, supervise.Cause{})
	}()
	first := <-asked
	var last time.Time
	for range 5 {
		last = <-asked
	}
	close(stop)
	<-done
	if took := last.Sub(first); took < 31*pollOften*9/10 { // 1+2+4+8+16
		t.Errorf("it was polled six times in %s", took)
	}
}
