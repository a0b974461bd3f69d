package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// dryRun returns what executor uninstall --dry-run prints, and looks that it changed nothing.
func (h *host) dryRun() string {
	h.t.Helper()
	before := tree(h.t, string(h.root))
	var out strings.Builder
	if err := executor.Remove(context.Background(), h.config(), executor.Removal{DryRun: true, Out: &out}); err != nil {
		h.t.Fatal(err)
	}
	if after := tree(h.t, string(h.root)); after != before {
		h.t.Errorf("the dry run changed something:\n%s\n%s", before, after)
	}
	return out.String()
}

// says fails the test unless each line that is wanted is in the text, however it is spaced.
func says(t *testing.T, text string, lines ...string) {
	t.Helper()
	text = "\n" + text
	for _, l := range lines {
		found := false
		for have := range strings.Lines(text) {
			found = found || strings.HasPrefix(strings.Join(strings.Fields(have), " "), l)
		}
		if !found {
			t.Errorf("no %q in:%s", l, text)
		}
	}
}

func TestADryRunShowsTheDecisionAndAllThatItIsMadeFrom(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE})
	says(t, h.dryRun(), "DECISION the executor stays and works", "ownership manual", "life in the document alive",
		"tombstone none", "login in", "bus connected yes", "executor running no", "agents left none",
		"open changes none", h.root.Identity()+" is removed", string(h.root)+" is removed")
	err := executor.Remove(t.Context(), h.config(), executor.Removal{})
	r := fault.RefusalOf(err)
	if r.GetCode() != "NOT_UNINSTALLED" || r.GetMessage() != "the server is alive" ||
		r.GetTry() != "garrison server decommission "+h.who.ServerID || len(h.missing()) > 1 {
		t.Fatalf("a living server: %v, missing %v", err, h.missing())
	}

	h.dead(forged(h))
	says(t, h.dryRun(), "DECISION the executor stays, suspended, BAD_TOMBSTONE", "tombstone forged")
	h.g.Stop()
	says(t, h.dryRun(), "DECISION the executor stays and works, BUS_AWAY", "login away", "bus connected no",
		"life in the document unknown")
	err = executor.Remove(t.Context(), h.config(), executor.Removal{})
	want := "the executor stays and works, BUS_AWAY: the bus is unreachable"
	if r := fault.RefusalOf(err); r.GetMessage() != want {
		t.Errorf("without the bus %v, want %q", err, want)
	}
	h.g.Start(t)

	h.write(h.root.Path("notes"), []byte("theirs"))
	h.dead(h.proof(h.who.ServerID))
	says(t, h.dryRun(), "DECISION the executor removes itself", "tombstone good",
		h.root.Path("notes")+" stays: not Garrison's",
		string(h.root)+" stays: something in it stays")
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{}); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(string(h.root) + "/*")
	if len(left) != 1 || len(h.receipts()) != 1 {
		t.Errorf("left %v, receipts %v", left, h.receipts())
	}
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{DryRun: true}); !fault.Is(err, fault.NotFound) {
		t.Errorf("where nothing is: %v", err)
	}
}

// What is an agent's is Garrison's, and is said to go with the agent, whether an executor runs or not.
func TestADryRunKnowsTheAgentsThatAreInstalled(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	c := h.config()
	c.StopAgents = true
	_, stop := h.run(c)
	h.daemon()
	var out strings.Builder
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{DryRun: true, Out: &out}); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := []string{
		"agents left gz-tools",
		"DECISION the executor stays and works",
		h.root.Agent("gz-tools") + " is removed earlier, with agent gz-tools",
		h.root.Agents() + " is removed",
		string(h.root) + " is removed",
		program + " stays: installed by hand",
	}
	says(t, out.String(), append(agent, "executor running yes")...)
	stop()
	if err := os.Mkdir(h.root.Agent("theirs"), 0o755); err != nil {
		t.Fatal(err)
	}
	agent[3], agent[4] = h.root.Agents()+" stays: something in it stays", h.root.Agent(
		"theirs")+" stays: not Garrison's"
	says(t, h.dryRun(), append(agent, "executor running no")...)
}

func TestAnUninstallBesideARunningExecutorIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Provisioned)
	_, stop := h.run(h.config())
	h.dead(h.proof(h.who.ServerID))
	h.state(status.Resting, "PROVISIONED")
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{}); fault.RefusalOf(err).
		GetCode() !=
		"EXECUTOR_RUNS" {
		t.Errorf("beside it: %v", err)
	}
	stop()
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{}); fault.RefusalOf(err).
		GetCode() !=
		"NOT_UNINSTALLED" {
		t.Errorf("behind it: %v", err)
	}
}

// After a crash the command finishes what was begun, without the bus.
func TestTheCommandFinishesAnUninstallThatWasBegun(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.dead(h.proof(h.who.ServerID))
	h.slay("removed identity.json", 1)
	says(t, h.dryRun(), "DECISION the executor removes itself, begun for server "+h.who.ServerID,
		h.root.Key()+" is removed")
	h.g.Stop()
	if err := executor.Remove(t.Context(), h.config(), executor.Removal{}); err != nil {
		t.Fatal(err)
	}
	if left := there(h); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	h.g.Start(t)
}

// A mark that does not hold, or that is of another server, removes nothing.
func TestAMarkThatDoesNotHoldIsPassedOver(t *testing.T) {
	t.Parallel()
	victim := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "victim"), identity.Manual)
	other := newHost(t, victim.g, filepath.Join(t.TempDir(), "other"), identity.Manual)
	other.dead(other.proof(other.who.ServerID))
	other.slay("marked", 1)
	mark, err := os.ReadFile(other.root.Tombstone())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"another's":      mark,
		"cut short":      mark[:len(mark)/2],
		"of a provision": []byte(strings.Replace(string(mark), identity.Manual, identity.Provisioned, 1)),
		"without a key":  []byte(strings.Replace(string(mark), victim.who.TombstoneKey, "", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			victim.write(victim.root.Tombstone(), data)
			_, stop := victim.run(victim.config())
			victim.state(status.Running, "")
			stop()
			if m := victim.missing(); len(m) > 0 {
				t.Errorf("it lost %v", m)
			}
		})
	}
}
