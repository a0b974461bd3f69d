package servers_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// A container that lost its identity, and is started with its used token, keeps its agents and waits.
func TestAnExecutorWithATokenKeepsItsAgentsWithoutItsIdentity(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	file, root := filepath.Join(w.Dir, "bravo.token"), filepath.Join(w.Dir, "bravo")
	t.Cleanup(func() { // the last executor is killed, and leaves its agent
		if pid := w.agentIn(root); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	w.OK("server", "enroll", "bravo", "--label", "port=0", "--token-file", file)
	run := []string{"run", "--root", root, "--token-file", file, "--beat-interval", "1s", "--supervisor", "direct"}
	p := scenario.Execute(t, run...)
	w.shows("bravo", "online")
	w.OK("install", "beacon@1.0.0", "--on", "bravo")
	p.Kill()
	home := filepath.Join(root, "executor")
	kept := map[string][]byte{}
	for _, name := range []string{"identity.json", "key.seed"} {
		data, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = data
		scenario.Must(t, os.Remove(filepath.Join(home, name)))
	}

	p = scenario.Execute(t, run...)
	w.Reports(root, "suspended", "IDENTITY_UNREADABLE")
	pid := w.agentIn(root)
	scenario.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	w.Eventually("the agent is healed", func() error {
		if now := w.agentIn(root); now == pid || now == 0 {
			return fmt.Errorf("its process is %d", now)
		}
		return nil
	})
	for name, data := range kept {
		scenario.Must(t, os.WriteFile(filepath.Join(home, name), data, 0o600))
	}
	w.Reports(root, "running", "")

	// With its key it rejoins without a person.
	p.Kill()
	scenario.Must(t, os.Remove(filepath.Join(home, "identity.json")))
	scenario.Execute(t, append(run, "--stop-agents")...)
	w.Reports(root, "running", "")

	// Another server's token never takes over a root.
	other := filepath.Join(w.Dir, "charlie.token")
	w.OK("server", "enroll", "charlie", "--token-file", other)
	mistaken := exec.CommandContext(t.Context(), filepath.Join(scenario.Bin, "executor"), "run", "--root", root,
		"--token-file", other)
	out, err := mistaken.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "OTHER_SERVER") {
		t.Errorf("with another server's token it exits with %v: %s", err, out)
	}
}

// agentIn returns the process of the agent under a root; 0 unless there is just one. While one version takes over from
// another, there are two.
func (w *world) agentIn(root string) int {
	out, err := exec.Command("pgrep", "-f", "^"+filepath.Join(root, "images")+"/").Output()
	pids := strings.Fields(string(out))
	if err != nil || len(pids) != 1 {
		return 0
	}
	pid, err := strconv.Atoi(pids[0])
	scenario.Must(w.T, err)
	return pid
}

// beats waits until servers sent so many beats from now on.
func (w *world) beats(times int) {
	w.T.Helper()
	conn, err := bus.Dial(bus.Options{
		URL: w.URL(), Name: topology.UserRegistry, Log: zerolog.Nop(),
		Credentials: trust.ReadCredentials(filepath.Join(w.DataDir(), "trust", "services", "registry.creds")),
	})
	if err != nil {
		w.T.Fatal(err)
	}
	defer conn.Close()
	var sent atomic.Int64
	if _, err := conn.Subscribe(topology.BeatSubjects, func(bus.Message) { sent.Add(1) }); err != nil {
		w.T.Fatal(err)
	}
	w.Eventually("beats are sent", func() error {
		if n := sent.Load(); n < int64(times) {
			return fmt.Errorf("%d of %d", n, times)
		}
		return nil
	})
}

// Two executors with one identity, on one boot, are recorded once, and get no new tasks.
func TestACopiedMachineIsNoticed(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	alpha := w.Servers[0]
	copied := filepath.Join(w.Dir, "copy")
	scenario.Must(t, alpha.Executor.Kill())
	copyData(t, alpha.Root, copied)
	scenario.Must(t, alpha.Executor.Start())
	w.shows("alpha", "online")
	p := scenario.Execute(t, "run", "--root", copied, "--beat-interval", "1s", "--supervisor", "direct")
	w.shows("alpha", "duplicate")
	before := len(w.Facts())
	w.OK("install", "beacon@1.0.0", "--on", "alpha", "--detach")
	w.Eventually("the task says what it waits for", func() error {
		if out := w.OK("task", "list", "-o", "json"); !strings.Contains(out, "two machines use its identity") {
			return errors.New(out)
		}
		return nil
	})
	w.beats(10)
	if n := len(w.Facts()) - before; n > 4 {
		t.Errorf("%d facts during ten beats; the intent, the instance and the task are three", n)
	}
	if out := w.OK("explain", "alpha"); !strings.Contains(out, "DUPLICATE_IDENTITY") {
		t.Errorf("explained as:\n%s", out)
	}
	p.Kill()
	w.Converges("1.0.0")
	duplicated := 0
	for _, f := range w.Facts() {
		if _, ok := f.Body.(*serverv1.Duplicated); ok {
			duplicated++
		}
	}
	if duplicated != 1 {
		t.Errorf("%d facts record the duplicate, want 1", duplicated)
	}
	w.Holds()
}

// An executor that rejects its document reports it to the control plane.
func TestAForgedDeathIsReported(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	id := strings.TrimSpace(w.OK("server", "list", "--no-headers", "--columns", "id"))
	conn, err := bus.Dial(bus.Options{
		URL: w.URL(), Name: "task-dispatcher", Log: zerolog.Nop(),
		Credentials: trust.ReadCredentials(filepath.Join(w.DataDir(), "trust", "services", "task-dispatcher.creds")),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	data, err := proto.Marshal(&desiredv1.Document{
		ServerId: id, Cell: "main", Generation: 5000, Life: serverv1.Life_LIFE_DEAD,
		Tombstone: &serverv1.Tombstone{ServerId: id, Cell: "main", Signature: []byte("forged")},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: id})
	if _, err := conn.PublishDurable(t.Context(), bus.Durable{Subject: at, Data: data}); err != nil {
		t.Fatal(err)
	}
	w.shows("alpha", "suspended")
	for _, args := range [][]string{{"server", "list"}, {"server", "show", "alpha"}, {"explain", "alpha"}} {
		if out := w.OK(args...); !strings.Contains(out, "BAD_TOMBSTONE") {
			t.Errorf("garrison %s does not say why:\n%s", strings.Join(args, " "), out)
		}
	}
	w.Answers("1.0.0")
}
