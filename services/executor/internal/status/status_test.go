package status

import (
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
)

func TestASuspendedExecutorPrintsWhatToDoWithItsServer(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	s := Status{
		ServerID: "01900000-0000-7000-8000-000000000001", State: Suspended, Code: code.LoginDenied, Since: now, At: now,
		Reason: "denied", process: thisProcess(),
	}
	var out strings.Builder
	if err := s.Print(&out, now); err != nil {
		t.Fatal(err)
	}
	want := "try       garrison server show " + s.ServerID
	if !strings.Contains(out.String(), want) {
		t.Errorf("want %q in\n%s", want, out.String())
	}
}

func TestAnAgentWithoutAProcessHasADashForItsPID(t *testing.T) {
	now := time.Now()
	s := Status{State: Running, At: now, process: thisProcess()}
	s.Agents = []Agent{{Agent: "app", Version: "1", Health: "bad"}}
	var out strings.Builder
	if err := s.Print(&out, now); err != nil {
		t.Fatal(err)
	}
	if want := "app    1        bad     -    -      -     -\n"; !strings.Contains(out.String(), want) {
		t.Errorf("want %q in\n%s", want, out.String())
	}
}

func TestAnAgentThatWaitsForItsStartSaysWhenThatIs(t *testing.T) {
	now := time.Now()
	next := now.Add(time.Minute)
	s := Status{State: Running, At: now, process: thisProcess()}
	s.Agents = []Agent{{Agent: "app", Version: "1", Health: "bad", Reason: "it keeps ending", NextTry: next}}
	var out strings.Builder
	if err := s.Print(&out, now); err != nil {
		t.Fatal(err)
	}
	want := "it keeps ending; next try at " + next.Local().Format(time.TimeOnly)
	if !strings.Contains(out.String(), want) {
		t.Errorf("want %q in\n%s", want, out.String())
	}
}
