package executor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// stranger runs something in a directory, and returns it with a way to end it.
func (h *host) stranger(dir string) (pid int, end func()) {
	h.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	h.t.Cleanup(end)
	return cmd.Process.Pid, end
}

// refusesFor asserts that a clean-up is refused for a process, which runs on.
func (h *host) refusesFor(pid int, dryRun bool) {
	h.t.Helper()
	o, err := h.clean(h.t.Context(), h.proof(h.who.ServerID), dryRun)
	if r := o.GetRefusal(); err == nil || r.GetCode() != "PROCESSES_STAY" ||
		!strings.Contains(r.GetMessage(), strconv.Itoa(pid)+" at ") {
		h.t.Errorf("for %d: %v, %v", pid, o, err)
	}
	if !runs(pid) {
		h.t.Errorf("%d was ended", pid)
	}
}

// An agent whose entry is lost runs on, with all its files, and does not count as removed.
func TestACleanUpTouchesNothingWhileAnAgentRunsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	j, err := journal.Open(h.root.Journal())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Update(func(tx *journal.Tx) error { return tx.DropInstance("gz-tools") }); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, string(h.root))
	h.refusesFor(agent, true)
	h.refusesFor(agent, false)
	if after := tree(t, string(h.root)); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// What is not the version that the journal knows is looked for before agents go.
func TestACleanUpTouchesNoAgentWhileAStrangerRunsFromAnImage(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	pid, end := h.stranger(filepath.Join(h.root.Images(), strings.Repeat("ab", 32)))
	h.refusesFor(pid, false)
	if !runs(agent) {
		t.Error("the agent was ended")
	}
	end()
	if o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false); err != nil || runs(agent) || len(there(h)) > 0 {
		t.Errorf("without it: %v, %v", o, err)
	}
}

// What escaped its agent is not ended with it, and then the identity waits for it to go.
func TestACleanUpWaitsForWhatOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	pid, end := h.stranger(h.root.State("gz-tools"))
	h.refusesFor(pid, false)
	if _, err := os.Stat(h.root.Identity()); err != nil || runs(agent) {
		t.Errorf("the identity: %v; the agent runs: %v", err, runs(agent))
	}
	end()
	if o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false); err != nil || len(there(h)) > 0 {
		t.Errorf("without it: %v, %v, left %v", o, err, there(h))
	}
}
