package executor_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// These tests run the real executor as deploy/systemd/garrison-executor.service, on a
// server that systemd runs: make systemd-test. The unit is as it is delivered, but for the
// path of the program, a shorter RestartSec and WatchdogSec, and what it says going to a file.

const (
	serviceUnit = "garrison-executor.service"
	serviceRoot = "/var/lib/garrison"
	dropIn      = "/run/systemd/system/" + serviceUnit + ".d/test.conf"
)

func TestTheUnitBringsTheExecutorBackAndAgentsDoNotNotice(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	if group := s.shows(serviceUnit, "ControlGroup"); group == "" || group == s.shows(s.agents()[0], "ControlGroup") {
		t.Errorf("the agent is in the executor's group %q", group)
	}
	s.kills(syscall.SIGKILL)
	s.same(agent)
	s.kills(syscall.SIGTERM) // not from systemd, so it is not wanted
	s.same(agent)
	s.is(map[string]string{"NRestarts": "2", "ActiveState": "active"})

	s.ctl("stop", serviceUnit)
	s.is(map[string]string{"ActiveState": "inactive", "Result": "success"})
	s.lives(agent)
	if left := s.executors(); len(left) != 0 {
		t.Errorf("executors %v are left", left)
	}
	s.ctl("start", serviceUnit)
	s.same(agent)
	s.ctl("restart", serviceUnit)
	s.same(agent)
}

func TestTheUnitsProgramReplacesItselfInPlace(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	main, invocation := s.main(), s.shows(serviceUnit, "InvocationID")
	inPlace := func() {
		t.Helper()
		s.is(map[string]string{
			"MainPID":      strconv.Itoa(main),
			"InvocationID": invocation,
			"NRestarts":    "0",
			"ActiveState":  "active",
		})
		s.same(agent)
	}
	for _, version := range []string{"2.0.0", "3.0.0"} { // from no image to one, and from one to the next
		s.replace(s.want(s.bringsProgram(trait{Version: version}, s.program("executor-"+version), 30_000)), succeeded,
			"", version, version)
		s.found("good")
		inPlace()
	}
	s.replace(s.want(s.bringsProgram(trait{Version: "4.0.0", Hang: "trial"}, s.program("self"), 500)), undone,
		"NOT_READY", "3.0.0", "3.0.0")
	inPlace()

	// The executor that took the agent over knows its service: it sees its end, and its next process.
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "another process of the agent is known", func() bool {
		a := s.agent("sleeper")
		return a.Health == "good" && a.Pid != 0 && int(a.Pid) != agent &&
			s.shows(s.agents()[0], "MainPID") == strconv.Itoa(int(a.Pid))
	})
	task := s.unwant("executor")
	s.replace(task, succeeded, "", "", "1.0.0")
	s.is(map[string]string{"MainPID": strconv.Itoa(main), "InvocationID": invocation, "NRestarts": "0"})
}

// A process that hangs is ended by systemd and started again; that it lives is heard before
// and after it has become another program.
func TestTheUnitThatHangsIsStartedAgainAndAgentsDoNotNotice(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	hangs := func(restarts string) {
		t.Helper()
		for range 2 {
			heard := s.shows(serviceUnit, "WatchdogTimestampMonotonic")
			polltest.Eventually(t, "systemd hears that it lives",
				func() bool { return s.shows(serviceUnit, "WatchdogTimestampMonotonic") != heard })
		}
		s.kills(syscall.SIGSTOP)
		s.same(agent)
		s.is(map[string]string{"NRestarts": restarts, "ActiveState": "active"})
	}
	s.is(map[string]string{"NRestarts": "0", "WatchdogUSec": "5s"})
	hangs("1")
	s.replace(s.want(s.bringsProgram(trait{Version: "2.0.0"}, s.program("executor-2.0.0"), 30_000)), succeeded, "",
		"2.0.0", "2.0.0")
	s.same(agent)
	s.is(map[string]string{"NRestarts": "1"})
	hangs("2")
	if s := s.status(); s.Version != "2.0.0" || s.Note != "" {
		t.Errorf("status %+v", s)
	}
}

func TestTheUnitIsStoppedAndKilledWhileANewExecutorIsOnTrial(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	task := s.tries("2.0.0")
	s.ctl("stop", serviceUnit)
	s.is(map[string]string{"ActiveState": "inactive", "Result": "success"})
	if left := s.executors(); len(left) != 0 {
		t.Errorf("executors %v are left", left)
	}
	s.lives(agent)
	s.ctl("start", serviceUnit)
	s.tried() // as if it had never begun
	s.kills(syscall.SIGKILL)
	s.replace(task, undone, "INTERRUPTED", "", "1.0.0")
	s.same(agent)
	s.is(map[string]string{"NRestarts": "1"})
}

func TestTheUnitOfADecommissionedServerStaysDown(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.installs()
	proof, err := s.signer.Tombstone(s.at.Server, s.at.Cell, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.drop("sleeper")
	s.doc.Life, s.doc.Tombstone = serverv1.Life_LIFE_DEAD, proof
	s.write()
	down := func() {
		t.Helper()
		polltest.Eventually(t, "the unit is down for good",
			func() bool { return s.shows(serviceUnit, "SubState") == "dead" })
		s.is(map[string]string{"ActiveState": "inactive", "Result": "success", "MainPID": "0", "Job": ""})
		if agents := s.agents(); len(agents) != 0 {
			t.Errorf("agents' services %v are left", agents)
		}
		if _, err := os.Stat(serviceRoot); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", serviceRoot, err)
		}
	}
	down()
	if said, err := os.ReadFile(s.log); err != nil || !strings.Contains(string(said), "executor removed") ||
		strings.Contains(string(said), "join first") {
		t.Errorf("the executor said %s (%v)", said, err)
	}
	s.ctl("start", serviceUnit) // as the next boot does: the unit is enabled still
	down()
	theirs := filepath.Join(serviceRoot, "executor", "image-keys") // as of an administrator who keeps them
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(theirs), 0o700), os.WriteFile(theirs, []byte("# no key\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	s.ctl("start", serviceUnit)
	s.is(map[string]string{"ActiveState": "inactive", "ConditionResult": "no", "MainPID": "0"})
}

// abandons takes the executor away; systemd goes on running what it started.
func (s *service) abandons() {
	s.t.Helper()
	s.ctl("kill", "--signal=SIGKILL", "--kill-whom=main", serviceUnit)
	s.ctl("stop", serviceUnit)
}

// cleanUp cleans up with the tombstone, as somebody does there.
func (s *service) cleanUp() (out []byte, err error) {
	s.t.Helper()
	proof, err := s.signer.Tombstone(s.at.Server, s.at.Cell, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := protojson.Marshal(proof)
	if err != nil {
		s.t.Fatal(err)
	}
	clean := exec.Command("/usr-local/executor", "uninstall", "--root", serviceRoot, "--tombstone", "-", "-o", "json")
	clean.Stdin = bytes.NewReader(text)
	return clean.Output()
}

// A clean-up finds the agents that systemd goes on running without their executor.
func TestTheUnitThatIsGoneLeavesAgentsThatACleanUpEnds(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	s.abandons()
	s.same(agent)
	out, err := s.cleanUp()
	if err != nil || !strings.Contains(string(out), "executor/identity.json") {
		t.Fatalf("%v: %s", err, out)
	}
	if agents := s.agents(); len(agents) != 0 || runs(agent) {
		t.Errorf("agents' services %v are left; its process: %v", agents, runs(agent))
	}
	if _, err := os.Stat(serviceRoot); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", serviceRoot, err)
	}
}

// An agent whose entry the journal lost keeps running as a service, and does not count as gone.
func TestTheUnitsAgentThatNobodyKnowsIsNotCleanedAway(t *testing.T) {
	t.Parallel()
	s := newService(t)
	agent := s.installs()
	s.abandons()
	j, err := journal.Open(filepath.Join(serviceRoot, "executor", "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		j.Update(func(tx *journal.Tx) error { return tx.DropInstance("sleeper") }), j.Close(),
	); err != nil {
		t.Fatal(err)
	}
	out, err := s.cleanUp()
	if err == nil || !strings.Contains(string(out), "PROCESSES_STAY") ||
		!strings.Contains(string(out), strconv.Itoa(agent)+" at ") {
		t.Errorf("%v: %s", err, out)
	}
	s.same(agent)
}
