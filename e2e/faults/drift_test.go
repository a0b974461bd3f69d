package faults_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/code"
)

var everyDamage = flag.Bool("damages", false, "do every kind of damage to a server, and not only some")

// idle is a program that sleeps until SIGTERM.
const idle = "#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do\n\tsleep 1 &\n\twait $!\ndone\n"

// idleRecipe is the recipe of an agent that runs idle with a configuration file.
const idleRecipe = `agent: %s
version: "1.0.0"
kind: daemon
run:
  command: idle
  args: ["${config}/idle.conf"]
  configs:
    - {template: idle.tmpl, path: idle.conf}
  ready: {soak: 50ms}
  stop_timeout: 2s
`

// idleAgent imports an agent that idles and installs it.
func (w *world) idleAgent(name string) {
	w.T.Helper()
	dir := filepath.Join(w.Dir, "images", name)
	scenario.Must(w.T, os.MkdirAll(dir, 0o700))
	for file, text := range map[string]string{
		"garrison.yaml": fmt.Sprintf(idleRecipe, name), "VERSION": name, "idle.tmpl": "agent={{.agent}}\n",
		"idle": idle,
	} {
		mode := os.FileMode(0o600)
		if file == "idle" {
			mode = 0o755
		}
		scenario.Must(w.T, os.WriteFile(filepath.Join(dir, file), []byte(text), mode))
	}
	w.OK("agent", "create", name, "--kind", "daemon")
	scenario.Must(w.T, sample.Activate(w.T.Context(), w.CLI, dir))
	w.OK("install", name+"@1.0.0", "--on", "all")
}

// difference is one that garrison check lists.
type difference struct{ Agent, Cause string }

// differences returns what garrison check lists for the agents of the fleet.
func (w *world) differences() []difference {
	w.T.Helper()
	text, _ := w.CLI(w.T.Context(), "check", "instances", "-o", "json") // it ends with 3 when something differs
	var listed struct{ Differences []difference }
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		w.T.Fatalf("%v: %s", err, text)
	}
	return listed.Differences
}

// causes returns the causes of the differences, by agent.
func (w *world) causes() map[string]string {
	w.T.Helper()
	out := map[string]string{}
	for _, d := range w.differences() {
		out[d.Agent] = d.Cause
	}
	return out
}

// differing returns on how many servers garrison check finds that an agent differs.
func (w *world) differing(agent string) (n int) {
	w.T.Helper()
	for _, d := range w.differences() {
		if d.Agent == agent {
			n++
		}
	}
	return n
}

// checkedTwice damages two agents that run on every server, the second once the damage of the first was found. After
// it, each server has checked twice what was damaged before.
func (w *world) checkedTwice(first, second string) {
	w.T.Helper()
	for _, agent := range []string{first, second} {
		for _, s := range w.Servers {
			scenario.Must(w.T, os.Remove(filepath.Join(s.Root, "agents", agent, "current")))
		}
		w.Eventually("the damage of "+agent+" is found", func() error {
			if n := w.differing(agent); n < len(w.Servers) {
				return fmt.Errorf("on %d of %d servers", n, len(w.Servers))
			}
			return nil
		})
	}
}

// damaged is one damage that was done.
type damaged struct {
	damage
	spot
	whole, broken string // its sums before and after the damage
	began         time.Time
	found, cured  time.Duration
}

// damageAll installs an agent for each damage and does it, under the policy report.
func (w *world) damageAll() (out []*damaged) {
	w.T.Helper()
	for n, d := range damages {
		if !d.usual && !*everyDamage {
			continue
		}
		s := spot{w.Servers[0].Root, fmt.Sprintf("idle-%02d", n)}
		w.idleAgent(s.agent)
		out = append(out, &damaged{damage: d, spot: s})
	}
	w.OK("check")
	for _, d := range out {
		d.whole, d.began = d.sum(), time.Now()
		if err := d.do(d.spot); err != nil {
			w.T.Fatalf("%s: %v", d.kind, err)
		}
	}
	w.Eventually("each damage is found and named", func() error {
		causes, left := w.causes(), []string{}
		for _, d := range out {
			switch {
			case d.found > 0:
			case causes[d.agent] == d.cause:
				d.found = time.Since(d.began)
			default:
				left = append(left, fmt.Sprintf("%s: %q; want %s", d.kind, causes[d.agent], d.cause))
			}
		}
		if len(left) > 0 {
			return errors.New(strings.Join(left, "; "))
		}
		return nil
	})
	for _, d := range out {
		d.broken = d.sum()
	}
	return out
}

// TestDamageOnAServerIsFoundNamedAndCured: under the policy report each damage is found and named, and nothing is
// changed; under hold no change of the agent but its repair is accepted; under heal the executor cures each damage.
func TestDamageOnAServerIsFoundNamedAndCured(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Check: time.Second}, "web-1")}
	w.OK("env", "create", "prod", "--drift", "report")
	w.OK("server", "set", "web-1", "--env", "prod", "--yes")
	executorSays(w, "drift policy changed", 1)
	w.idleAgent("later-1")
	w.idleAgent("later-2")
	all := w.damageAll()
	w.Fails(3, "drift in environment prod: report", "check")
	w.OK("env", "update", "prod", "--drift", "hold")
	w.Fails(1, code.DriftHeld, "configure", all[0].agent, "--set", "a=b", "--on", "web-1", "--yes")
	w.checkedTwice("later-1", "later-2") // what heals would have begun
	for _, d := range all {
		if d.sum() != d.broken || d.broken == d.whole {
			t.Errorf("%s: changed under report or hold, or not damaged at all", d.kind)
		}
	}
	w.OK("env", "update", "prod", "--drift", "heal")
	healed := time.Now()
	w.Eventually("each damage is cured", func() error {
		causes, left := w.causes(), []string{}
		for _, d := range all {
			switch {
			case d.cured > 0:
			case causes[d.agent] == "" && d.sum() == d.whole:
				d.cured = time.Since(healed)
			default:
				left = append(left, d.kind+": "+causes[d.agent])
			}
		}
		if len(left) > 0 || len(causes) > 0 {
			return fmt.Errorf("%d are not: %s; all causes: %v", len(left), strings.Join(left, "; "), causes)
		}
		return nil
	})
	var table strings.Builder
	for _, d := range all {
		fmt.Fprintf(&table, "%-50s %-24s %8s %8s\n", d.kind, d.cause, d.found.Round(time.Millisecond),
			d.cured.Round(time.Millisecond))
	}
	t.Logf("%-50s %-24s %8s %8s\n%s", "damage", "cause", "found", "cured", table.String())
	w.OK("check")
}

// executorSays waits until the executor of the first server logged a text so often.
func executorSays(w *world, text string, times int) {
	w.T.Helper()
	w.Eventually("the executor logs "+text, func() error {
		if n := strings.Count(w.Servers[0].Executor.Log(), text); n < times {
			return fmt.Errorf("%d times; want %d", n, times)
		}
		return nil
	})
}

// TestHealingIsBrakedWhileManyServersDrift: the registry brakes before executors heal a fleet that drifts at once, and
// an operator who raises the brake lets them.
func TestHealingIsBrakedWhileManyServersDrift(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Check: 8 * time.Second}, "web-1", "web-2", "web-3", "web-4")}
	w.OK("env", "create", "prod")
	w.OK("server", "set", "web-1", "web-2", "web-3", "web-4", "--env", "prod", "--yes")
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.idleAgent("later-1")
	w.idleAgent("later-2")
	w.OK("check")
	broken := func() (n int) {
		for _, s := range w.Servers {
			if _, err := os.Lstat(filepath.Join(s.Root, "agents", "beacon", "current")); err != nil {
				n++
			}
		}
		return n
	}
	for _, s := range w.Servers {
		scenario.Must(t, os.Remove(filepath.Join(s.Root, "agents", "beacon", "current")))
	}
	w.Eventually("healing is braked", func() error {
		if text := w.OK("env", "show", "prod"); !strings.Contains(text, "braked") {
			return fmt.Errorf("not braked:\n%s", text)
		}
		return nil
	})
	w.Fails(3, "drift in environment prod: heal, braked since", "check")
	left := broken()
	w.checkedTwice("later-1", "later-2") // a check and the time that damage lasts are over
	if n := broken(); n < left-1 || n == 0 {
		t.Errorf("%d of %d broken links are left although healing is braked", n, left)
	}
	w.OK("env", "update", "prod", "--drift-brake", "100")
	w.Eventually("all is cured", func() error {
		if n := broken(); n > 0 {
			return fmt.Errorf("%d links are broken", n)
		}
		return nil
	})
	w.Eventually("nothing differs", func() error {
		if causes := w.causes(); len(causes) > 0 {
			return fmt.Errorf("%v", causes)
		}
		return nil
	})
	if text := w.OK("events", "--noun", "environment"); !strings.Contains(text, "drift-braked") ||
		!strings.Contains(text, "drift-released") {
		t.Errorf("events lack the brake:\n%s", text)
	}
}
