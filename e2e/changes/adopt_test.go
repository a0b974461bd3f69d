package changes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// stray starts beacon as a person would, on the port of a server. The test ends it.
func stray(t *testing.T, program, version string, s *rig.Server) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, "-listen", "127.0.0.1:"+strconv.Itoa(s.Port), "-version", version)
	scenario.Must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return cmd
}

// startOf returns the start time of a process, or "" when it is gone.
func startOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// candidateOf scans a server, and returns the id of a process's candidate.
func (w *world) candidateOf(server string, pid int) string {
	w.T.Helper()
	w.OK("server", "refresh", server, "--scan")
	var list struct {
		Candidates []struct {
			Id      string
			Pid     int
			Sockets []string
		}
	}
	out := w.OK("instance", "adopt", server, "--list", "--detector", "process", "--listening", "-o", "json")
	scenario.Must(w.T, json.Unmarshal([]byte(out), &list))
	for _, c := range list.Candidates {
		if c.Pid == pid && len(c.Sockets) > 0 {
			return c.Id
		}
	}
	w.T.Fatalf("process %d is not in:\n%s", pid, out)
	return ""
}

// serves fails the test unless a server's agent is still that process.
func (w *world) serves(s *rig.Server, pid int, start, when string) {
	w.T.Helper()
	w.Eventually("it answers "+when, func() error {
		got, err := s.Get(w.T.Context(), "/pid")
		if err == nil && got != strconv.Itoa(pid) {
			w.T.Fatalf("%s process %s answers, want %d", when, got, pid)
		}
		return err
	})
	if now := startOf(pid); now != start {
		w.T.Fatalf("%s process %d started at %s, want %s", when, pid, now, start)
	}
}

// restart kills a server's executor and starts it again.
func restart(t *testing.T, s *rig.Server) {
	t.Helper()
	scenario.Must(t, s.Executor.Kill())
	scenario.Must(t, s.Executor.Start())
}

// A process that was started by hand becomes an instance, survives the executor, is let go, is adopted once more, and
// is then healed and upgraded as any other. Its process is the same until Garrison is asked for another version.
func TestARunningProcessIsAdoptedAndLetGoWithoutARestart(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	alpha := w.Servers[0]
	cmd := stray(t, filepath.Join(scenario.Bin, "beacon"), "1.0.0", alpha)
	pid, start := cmd.Process.Pid, startOf(cmd.Process.Pid)
	w.serves(alpha, pid, start, "by hand")
	w.Fails(1, "NOT_SCANNED", "instance", "adopt", "alpha", "--list")
	id := w.candidateOf("alpha", pid)

	w.Fails(1, "NOT_FOUND", "instance", "adopt", "alpha", "nothing", "--as", "beacon@1.0.0", "--yes")
	w.Fails(1, "NOT_ADOPTABLE", "instance", "adopt", "alpha", "process/x", "--as", "beacon@1.0.0", "--yes", "--dry-run")
	w.OK("instance", "adopt", "alpha", id, "--as", "beacon@1.0.0", "--yes")
	w.Converges("1.0.0")
	w.serves(alpha, pid, start, "adopted")
	w.Fails(1, "ALREADY_INSTALLED", "instance", "adopt", "alpha", id, "--as", "beacon@1.0.0", "--yes")
	w.Eventually("the proof is shown", func() error {
		if out := w.OK("instance", "show", "alpha", "beacon"); !strings.Contains(out, "process "+strconv.Itoa(pid)) ||
			!strings.Contains(out, "the image's program") || !strings.Contains(out, ":"+strconv.Itoa(alpha.Port)) {
			return fmt.Errorf("shown as:\n%s", out)
		}
		return nil
	})
	restart(t, alpha)
	w.Converges("1.0.0")
	w.serves(alpha, pid, start, "after the executor was killed")
	w.OK("instance", "release", "alpha", "beacon", "--yes")
	w.isEmpty()
	w.serves(alpha, pid, start, "released")
	restart(t, alpha)
	w.serves(alpha, pid, start, "released, after the executor was killed")

	w.OK("instance", "adopt", "alpha", id, "--as", "beacon@1.0.0", "--yes")
	w.Converges("1.0.0")
	w.serves(alpha, pid, start, "adopted again")
	scenario.Must(t, cmd.Process.Kill())
	w.Eventually("it is started again", func() error {
		_, err := alpha.Get(t.Context(), "/pid")
		return err
	})
	w.Converges("1.0.0")
	w.Fails(1, "NOT_ADOPTED", "instance", "release", "alpha", "beacon", "--yes")
	w.OK("install", "beacon@1.0.0", "--on", "alpha")
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes")
	w.Converges("2.0.0")
	w.Fails(1, "NOT_ADOPTED", "instance", "release", "alpha", "beacon", "--yes")
	w.Holds()
}

// isEmpty waits until no instance is left.
func (w *world) isEmpty() {
	w.T.Helper()
	w.Eventually("no instance is left", func() error {
		rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
		if err == nil && len(rows) > 0 {
			err = fmt.Errorf("%v", rows)
		}
		return err
	})
}

// A process with another program is adopted as it is: it is shown as drifted, nothing changes it, and the next upgrade
// replaces it. A candidate that ended, and another process with its id, are refused.
func TestAProcessOfAnotherProgramIsAdoptedAsItIs(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "bravo")}
	bravo := w.Servers[0]
	other := filepath.Join(t.TempDir(), "old-beacon")
	program, err := os.ReadFile(filepath.Join(scenario.Bin, "beacon"))
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, os.WriteFile(other, append(program, "another build"...), 0o755))
	cmd := stray(t, other, "0.9.0", bravo)
	pid, start := cmd.Process.Pid, startOf(cmd.Process.Pid)
	w.serves(bravo, pid, start, "by hand")
	id := w.candidateOf("bravo", pid)

	w.Fails(1, "CANDIDATE_GONE", "instance", "adopt", "bravo", id+"0", "--as", "beacon@1.0.0", "--yes")
	w.serves(bravo, pid, start, "after another start was refused")
	w.OK("instance", "adopt", "bravo", id, "--as", "beacon@1.0.0", "--yes")
	w.Eventually("it is drifted", func() error {
		rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
		if err == nil && (len(rows) != 1 || rows[0].GetState() != instancev1.State_STATE_DRIFTED ||
			rows[0].GetObserved().GetVersion() != "unknown") {
			err = fmt.Errorf("%v", rows)
		}
		return err
	})
	restart(t, bravo)
	w.OK("server", "refresh", "bravo")
	w.serves(bravo, pid, start, "adopted, after the executor was killed")
	w.OK("up", "beacon@1.0.0", "--on", "bravo", "--yes")
	w.Converges("1.0.0")
	if now := startOf(pid); now == start {
		t.Error("the process of another program runs on after the upgrade")
	}
	w.Holds()
}
