package servers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// listed is the agent on one server as the registry lists it.
type listed struct {
	State, Health    string
	Observed, Wanted struct{ Version, Digest string }
}

// inventory returns the registry's list of beacon, by server.
func (w *world) inventory() (map[string]listed, error) {
	out, err := w.CLI(w.T.Context(), "instance", "list", "beacon", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Instances []struct {
			ServerName string `json:"serverName"`
			Instance   listed
		}
	}
	err = json.Unmarshal([]byte(out), &list)
	rows := map[string]listed{}
	for _, r := range list.Instances {
		rows[r.ServerName] = r.Instance
	}
	return rows, err
}

// sameAsThere compares the registry's list with a server's disk, its process and its executor.
func (w *world) sameAsThere(s *rig.Server, r listed) error {
	linked := ""
	if link, err := os.Readlink(filepath.Join(s.Root, "agents", "beacon", "current")); err == nil {
		linked = filepath.Base(link)
	}
	if said := strings.TrimPrefix(r.Observed.Digest, "sha256:"); said != linked {
		const wrong = "%s: the registry says image %q (%s), the link leads to %q"
		return fmt.Errorf(wrong, s.Name, said, r.Observed.Version, linked)
	}
	answer, _ := s.Get(w.T.Context(), "/")
	if answer != r.Observed.Version {
		return fmt.Errorf("%s: the registry says %q %s, and %q answers", s.Name, r.Observed.Version, r.Health, answer)
	}
	health := "absent"
	for _, a := range statusOf(w.T, s).Agents {
		health = strings.ToLower(a.Health)
	}
	if r.Health != health && (linked != "" || r.Health == "good") {
		return fmt.Errorf("%s: the registry says %s, its executor %s", s.Name, r.Health, health)
	}
	good := r.Wanted.Digest == r.Observed.Digest && health == "good"
	if converged := r.State == "converged"; r.Wanted.Digest != "" && converged != good {
		return fmt.Errorf("%s: %s, with %q wanted and %q observed", s.Name, r.State, r.Wanted.Version,
			r.Observed.Version)
	}
	if r.State == "pending" {
		return fmt.Errorf("%s: pending, and nothing is under way", s.Name)
	}
	return nil
}

// statusOf returns the status that the executor of a server writes.
func statusOf(t *testing.T, s *rig.Server) (status struct{ Agents []struct{ Health string } }) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Root, "executor", "status.json"))
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// settles waits until the registry lists what is on every server.
func (w *world) settles() {
	w.T.Helper()
	w.Holds()
	w.Eventually("the registry lists what is on the servers", func() error {
		rows, err := w.inventory()
		for _, s := range w.Servers {
			err = errors.Join(err, w.sameAsThere(s, rows[s.Name]))
		}
		return err
	})
}

// badVersions imports versions of beacon that are rolled back.
func (w *world) badVersions() {
	w.T.Helper()
	for version, misbehave := range map[string]string{"3.1.0": "never-ready", "3.2.0": "exit"} {
		v := sample.Version{Version: version, Misbehave: misbehave, Ready: "2s", Soak: "500ms", Stop: "2s"}
		w.ImportImage(v)
	}
}

// Upgrades that overlap and are rolled back leave the earlier version, and the registry lists it.
func TestTheRegistryListsWhatRunsAfterOverlappingUpgradesWereRolledBack(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.badVersions()
	w.OK("install", "beacon@2.0.0", "--on", "all")
	w.Converges("2.0.0")
	w.OK("up", "beacon@3.1.0", "--on", "all", "--yes", "--detach")
	time.Sleep(500 * time.Millisecond) // it is under way by then, and not rolled back yet
	w.OK("up", "beacon@1.0.0", "--on", "all", "--yes", "--detach")
	w.OK("up", "beacon@3.1.0", "--on", "all", "--yes", "--detach")
	w.settles()
	w.Converges("2.0.0") // what was there before is wanted again
	for _, task := range w.tasks() {
		if task.To.Version == "3.1.0" && task.State == "undone" && task.From.Version == "3.1.0" {
			t.Error("a task says that it went from 3.1.0, which was never there")
		}
	}
}

type listedTask struct {
	State    string
	From, To struct{ Version string }
}

func (w *world) tasks() []listedTask {
	w.T.Helper()
	var list struct{ Tasks []listedTask }
	scenario.Must(w.T, json.Unmarshal([]byte(w.OK("task", "list", "-o", "json")), &list))
	return list.Tasks
}

// A bad agent stays listed as bad after a change of it was rolled back, until its files are
// repaired.
func TestAnAgentThatIsBadStaysSoAfterAChangeWasRolledBack(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.badVersions()
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	s := w.Servers[0]
	file := filepath.Join(s.Root, "agents", "beacon", "current", "VERSION")
	scenario.Must(t, os.Chmod(filepath.Dir(file), 0o755))
	scenario.Must(t, os.Chmod(file, 0o644))
	scenario.Must(t, os.WriteFile(file, []byte("an administrator's"), 0o600))
	isBad := func() error {
		rows, err := w.inventory()
		if err == nil && rows["alpha"].Health != "bad" {
			err = fmt.Errorf("the registry says %+v", rows["alpha"])
		}
		return err
	}
	w.Eventually("the registry lists it as bad", isBad)
	w.Fails(1, "undone", "up", "beacon@3.2.0", "--on", "all", "--yes")
	w.settles()
	w.Eventually("the registry lists the state of the files", func() error {
		if text, err := os.ReadFile(file); err != nil || string(text) != "1.0.0" {
			return isBad()
		}
		rows, err := w.inventory()
		if err == nil && rows["alpha"].Health != "good" {
			err = fmt.Errorf("repaired, and the registry says %+v", rows["alpha"])
		}
		return err
	})
}

// After any mix of overlapping intents and restarts of executors, the registry lists what is on
// the disks and what runs.
func TestTheRegistryListsWhatIsOnTheServersAfterAnyHistory(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Retry: true}, "alpha", "bravo", "charlie")}
	w.badVersions()
	w.OK("install", "beacon@1.0.0", "--on", "all")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	some := func(of ...string) string { return of[r.IntN(len(of))] }
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		on := some("alpha", "bravo", "charlie", "all")
		version := some("1.0.0", "2.0.0", "3.1.0", "3.2.0")
		var args []string
		switch r.IntN(10) {
		case 0:
			args = []string{"remove", "beacon", "--on", on, "--yes", "--detach"}
		case 1, 2:
			args = []string{"install", "beacon@" + version, "--on", on, "--detach"}
		case 3:
			args = []string{"server", "refresh", on, "--detach"}
		case 4:
			ids, _ := w.CLI(t.Context(), "task", "list", "--state", "queued", "-o", "name")
			if id, _, found := strings.Cut(ids, "\n"); found {
				args = []string{"cancel", strings.TrimPrefix(id, "task/")}
			}
		case 5:
			x := w.Servers[r.IntN(len(w.Servers))].Executor
			scenario.Must(t, errors.Join(x.Kill(), x.Start()))
		default:
			args = []string{"up", "beacon@" + version, "--on", on, "--yes", "--detach"}
		}
		if args != nil {
			_, _ = w.CLI(t.Context(), args...) // what is impossible now is refused
		}
	}
	w.settles()
}
