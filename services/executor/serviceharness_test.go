package executor_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/freeport"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// service is a server whose executor is the unit.
type service struct {
	*box
	t       *testing.T
	address string // where the agent listens
}

func newService(t *testing.T) *service {
	t.Helper()
	if os.Getenv(benchVariable) == "" {
		t.Skipf("%s is not set: make systemd-test", benchVariable)
	}
	log := filepath.Join(t.TempDir(), "log")
	settings := fmt.Sprintf(
		"[Service]\nRestartSec=500ms\nWatchdogSec=5s\nEnvironment=GARRISON_BEAT_INTERVAL=50ms\n"+
			"StandardOutput=append:%s\nStandardError=append:%s\n",
		log,
		log,
	)
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(dropIn), 0o755), os.WriteFile(dropIn, []byte(settings), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	s := &service{box: newServer(t, serviceRoot, "/usr-local/executor", log), t: t}
	s.main = func() int { pid, _ := strconv.Atoi(s.shows(serviceUnit, "MainPID")); return pid }
	t.Cleanup(func() {
		s.ctl("stop", serviceUnit)
		for _, a := range s.agents() {
			s.ctl("stop", a)
		}
		_ = os.RemoveAll(serviceRoot)
		_ = os.RemoveAll(filepath.Dir(dropIn))
		s.ctl("daemon-reload")
	})
	s.ctl("daemon-reload")
	s.ctl("start", serviceUnit)
	return s
}

func (s *service) ctl(args ...string) {
	s.t.Helper()
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("systemctl %v: %v: %s", args, err, out)
	}
}

func (s *service) shows(unit, property string) string {
	s.t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "-p", property, unit).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// agents lists the services of agents.
func (s *service) agents() (names []string) {
	s.t.Helper()
	out, err := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", "garrison-*.service").
		Output()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if name := strings.Fields(line)[0]; name != serviceUnit {
			names = append(names, name)
		}
	}
	return names
}

// is looks at properties of the unit.
func (s *service) is(properties map[string]string) {
	s.t.Helper()
	for name, want := range properties {
		if got := s.shows(serviceUnit, name); got != want {
			s.t.Errorf("%s of %s is %q, want %q", name, serviceUnit, got, want)
		}
	}
}

// installs brings an agent with a socket, which systemd runs, and returns its process.
func (s *service) installs() (pid int) {
	s.t.Helper()
	port, err := freeport.Take()
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = freeport.Address(port)
	run := &imagev1.Run{
		Command: "sleeper",
		Ready:   &imagev1.Ready{SoakMs: 10},
		Sockets: []*imagev1.Socket{{Name: "main", Listen: s.address}},
	}
	end, err := s.waitEnd(
		s.want(
			s.publish(
				imagetest.New(s.t, "sleeper", "1.0.0", run,
					imagetest.Regular("sleeper", 0o755, []byte("#!/bin/sh\nexec sleep 100000\n"))),
			),
		),
	)
	if err != nil || end.GetState() != succeeded {
		s.t.Fatal(end, err)
	}
	agents := s.agents()
	if len(agents) != 1 || s.shows(agents[0], "Slice") != "garrison.slice" {
		s.t.Fatalf("agents' services %v", agents)
	}
	if pid, _ = strconv.Atoi(s.shows(agents[0], "MainPID")); pid == 0 {
		s.t.Fatal("the agent has no process")
	}
	s.same(pid)
	return pid
}

// same looks whether the agent's process is the one that it was, for systemd, for the
// executor, and for who connects.
func (s *service) same(pid int) {
	s.t.Helper()
	s.untouched(pid)
	s.lives(pid)
}

// lives looks at the agent without an executor.
func (s *service) lives(pid int) {
	s.t.Helper()
	agents := s.agents()
	if len(agents) != 1 || s.shows(agents[0], "MainPID") != strconv.Itoa(pid) ||
		s.shows(agents[0], "NRestarts") != "0" {
		s.t.Errorf("agents' services %v, want one whose process is %d, started once", agents, pid)
	}
	conn, err := net.DialTimeout("tcp", s.address, 5*time.Second)
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = conn.Close()
}

// kills ends the executor's process, and returns when systemd has started another one that works.
func (s *service) kills(signal syscall.Signal) {
	s.t.Helper()
	was := s.main()
	if err := syscall.Kill(was, signal); err != nil {
		s.t.Fatal(err)
	}
	polltest.Eventually(s.t, "systemd has started it again", func() bool {
		pid := s.main()
		return pid != 0 && pid != was && s.status().Pid == pid && s.status().Connected
	})
	polltest.Eventually(s.t, "it is the only one", s.alone)
}

// program returns one of the programs that were built for this.
func (s *service) program(name string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(os.Getenv(benchVariable), name))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// tries starts a change to an executor that hangs in its trial, and returns when it does.
func (s *service) tries(version string) (task string) {
	s.t.Helper()
	task = s.want(s.bringsProgram(trait{Version: version, Hang: "trial"}, s.program("self"), 60_000))
	s.tried()
	return task
}

func (s *service) tried() {
	s.t.Helper()
	polltest.Eventually(s.t, "the new executor is on trial", func() bool {
		return slices.ContainsFunc(s.executors(), func(p process) bool { return p.trial })
	})
}
