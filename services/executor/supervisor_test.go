package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/systemd"
)

func TestTheSupervisorIsWhatWasAskedForOrWhatTheServerHas(t *testing.T) {
	t.Parallel()
	root := layout.Root(t.TempDir())
	j, err := journal.Open(filepath.Join(string(root), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	_, missing := systemd.New(root, supervise.DefaultPolicy, os.Args[0])
	choose := func(want string) (string, error) {
		x := New(Config{Supervisor: want})
		x.root = root
		s, err := x.supervisor(j, zerolog.Nop())
		return fmt.Sprintf("%T", s), err
	}
	const direct = "*supervise.Direct"
	here := "*systemd.Supervisor"
	if missing != nil {
		here = direct
	}
	for _, c := range []struct{ want, is string }{
		{"", direct}, {SupervisorAuto, here}, {SupervisorDirect, direct}, {SupervisorAuto, here},
	} {
		if is, err := choose(c.want); is != c.is || err != nil {
			t.Errorf("%q: %s, %v; want %s", c.want, is, err, c.is)
		}
	}
	if is, err := choose(SupervisorSystemd); missing == nil && err != nil ||
		missing != nil && !errors.Is(err, systemd.ErrNotHere) {
		t.Errorf("systemd: %s, %v", is, err)
	}
	if _, err := choose("runit"); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}

func TestAServerWhoseBusIsGoneDoesNotRunAgentsASecondTime(t *testing.T) {
	t.Parallel()
	if notHere(systemd.ErrNoBus, SupervisorSystemd) || !notHere(systemd.ErrNoBus, SupervisorDirect) ||
		!notHere(systemd.ErrNotHere, SupervisorSystemd) ||
		notHere(nil, "") {
		t.Error("what systemd still runs would be run twice, or nothing would be run")
	}
}
