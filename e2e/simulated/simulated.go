// Package simulated runs a whole Garrison with a fleet of simulated servers (garrison-sim): it enrols them with one
// pooled token, installs an agent on all of them, upgrades it, and has the ledger compared with what they did.
package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Options say how many servers there are and what is wrong with them.
type Options struct {
	Servers int
	Flags   []string      // of garrison-sim, such as --failing 0.1
	Faulty  bool          // changes may come to a part of the servers only
	Kill    bool          // garrisond is killed in the middle of the upgrade
	Rollout *Rollout      // the upgrade is a rollout; nil means garrison up
	Within  time.Duration // bounds each step
}

// Step is how long a step of the scenario took, and the processor time of garrisond during it: where garrisond was
// started again, that since its start.
type Step struct {
	Name      string
	Took, CPU time.Duration
}

// Summary is what garrison-sim printed at its end, as far as tests read it.
type Summary struct {
	Servers   int            `json:"servers"`
	Joined    int            `json:"joined"`
	Faults    map[string]int `json:"faults"`
	Begun     int            `json:"tasks_begun"`
	Succeeded int            `json:"tasks_succeeded"`
	Undone    int            `json:"tasks_undone"`
	Checked   bool           `json:"ledger_checked"`
	Tasks     int            `json:"ledger_tasks"`
	Compared  int            `json:"ledger_tasks_compared"`
	Open      int            `json:"ledger_tasks_open"`
	Findings  []string       `json:"findings"`
	Tried     map[string]int `json:"servers_tried"` // how many servers began a change to a version
	Recovery  Recovery       `json:"-"`             // of garrisond, when it was killed
	Rolled    Rolled         `json:"-"`             // the rollout, when there was one
}

// Run starts the fleet and does every step. The caller closes the fleet, also after an error. The error names the
// findings of garrison-sim.
func Run(ctx context.Context, f *rig.Fleet, o Options) ([]Step, Summary, error) {
	r := New(f, o)
	if err := r.Start(ctx); err != nil {
		return nil, Summary{}, err
	}
	err := r.steps(ctx)
	s, e := r.Stop()
	s.Recovery, s.Rolled = r.recovery, r.rolled
	if r.options.Rollout != nil && err == nil && e == nil {
		e = r.compareTouched(ctx, &s)
	}
	return r.took, s, errors.Join(err, e)
}

// Runner starts a fleet and its simulated servers.
type Runner struct {
	fleet    *rig.Fleet
	options  Options
	sim      *exec.Cmd // garrison-sim; nil before Simulate
	stdout   bytes.Buffer
	stderr   bytes.Buffer
	changes  int // of all servers; it decides the next version
	took     []Step
	recovery Recovery
	rolled   Rolled
}

// New returns a runner on a fleet that was not started.
func New(f *rig.Fleet, o Options) *Runner { return &Runner{fleet: f, options: o} }

// Start does what Prepare and Simulate do.
func (r *Runner) Start(ctx context.Context) error {
	if err := r.Prepare(ctx); err != nil {
		return err
	}
	return r.Simulate(ctx)
}

// Installed starts the servers, waits until they are online, and brings the first version to them.
func (r *Runner) Installed(ctx context.Context) error {
	if err := r.Start(ctx); err != nil {
		return err
	}
	if err := r.within(r.Online)(ctx); err != nil {
		return err
	}
	return r.Change(ctx)
}

// within bounds a step.
func (r *Runner) within(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, r.options.Within)
		defer cancel()
		return step(ctx)
	}
}

// Change brings the next version to all servers, of two in turn, and waits until it is there. The first change is an
// install. With faults it may come to a part of the servers only.
func (r *Runner) Change(ctx context.Context) error {
	args := []string{"up", sample.Agent + "@" + []string{"1.0.0", to}[r.changes%2], "--on", "all", "--yes", "--at-once"}
	if r.changes == 0 {
		args = []string{"install", sample.Agent + "@1.0.0", "--on", "all", "--at-once"}
	}
	r.changes++
	return r.within(func(ctx context.Context) error {
		_, err := r.fleet.CLI(ctx, args...)
		if e, ok := errors.AsType[*rig.CLIError](err); ok && partly[e.Code] && r.options.Faulty {
			return nil
		}
		return err
	})(ctx)
}

// Grows waits until the ledger has a sequence.
func (r *Runner) Grows(ctx context.Context, to uint64) error {
	return rig.Until(ctx, fmt.Sprintf("the ledger has %d facts", to), func(ctx context.Context) error {
		end, err := r.fleet.LedgerEnd(ctx)
		if err == nil && end < to {
			err = fmt.Errorf("it has %d", end)
		}
		return err
	})
}

// Prepare starts garrisond, imports two versions of the sample agent, and creates the token.
func (r *Runner) Prepare(ctx context.Context) error {
	if err := r.fleet.Start(ctx); err != nil {
		return err
	}
	if _, err := r.fleet.CLI(ctx, "agent", "create", sample.Agent, "--kind", "daemon"); err != nil {
		return err
	}
	err := sample.Import(ctx, r.fleet.CLI, r.fleet.Bin, r.fleet.Dir,
		sample.Version{Version: "1.0.0"}, sample.Version{Version: "2.0.0"})
	if err != nil {
		return err
	}
	token, err := r.fleet.CLI(ctx, "token", "create", "simulated", "--uses", strconv.Itoa(r.options.Servers))
	if err != nil {
		return err
	}
	return os.WriteFile(r.tokenFile(), []byte(token), 0o600)
}

func (r *Runner) simDir() string { return filepath.Join(r.fleet.Dir, "simulated") }

func (r *Runner) tokenFile() string { return filepath.Join(r.fleet.Dir, "simulated.token") }

// steps does what is measured.
func (r *Runner) steps(ctx context.Context) error {
	upgrade := r.Change
	if r.options.Kill {
		upgrade = r.upgradeKilled
	}
	if r.options.Rollout != nil {
		upgrade = r.rollout
	}
	for _, s := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"join", r.Online},
		{"install", r.Change},
		{"upgrade", upgrade},
	} {
		if err := r.measure(ctx, s.name, s.do); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (r *Runner) measure(ctx context.Context, name string, do func(context.Context) error) error {
	pid := r.fleet.Garrisond.Pid()
	began := time.Now()
	before, _ := rig.Uses(pid)
	err := r.within(do)(ctx)
	now := r.fleet.Garrisond.Pid()
	if now != pid {
		before.CPU = 0
	}
	after, _ := rig.Uses(now)
	r.took = append(r.took, Step{name, time.Since(began), after.CPU - before.CPU})
	return err
}

// Online waits until every server is online.
func (r *Runner) Online(ctx context.Context) error {
	return r.await(ctx, map[string]int{"online": r.options.Servers})
}

// await waits until at least so many servers are of each presence.
func (r *Runner) await(ctx context.Context, want map[string]int) error {
	return rig.Until(ctx, "the servers are there", func(ctx context.Context) error {
		have, err := r.presences(ctx)
		for presence, servers := range want {
			if err == nil && have[presence] < servers {
				err = fmt.Errorf("servers are %v, want %v", have, want)
			}
		}
		return err
	})
}

// presences returns how many servers are of each presence, such as online.
func (r *Runner) presences(ctx context.Context) (map[string]int, error) {
	c, err := r.fleet.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	a, err := client.Call[*registryv1.CountServersResponse](ctx, c,
		&registryv1.CountServersRequest{By: []string{"presence"}})
	n := map[string]int{}
	for _, g := range a.GetCounts().GetGroups() {
		n[g.GetValues()[0]] = int(g.GetCount())
	}
	return n, err
}

// partly are the exit codes of a change that did not come to every server.
var partly = map[int]bool{5: true, 6: true}

// Simulate starts garrison-sim.
func (r *Runner) Simulate(ctx context.Context) error {
	args := []string{
		"--dir", r.simDir(), "--servers", strconv.Itoa(r.options.Servers),
		"--token-file", r.tokenFile(), "--context", r.fleet.ContextFile(), "--beat-interval", r.fleet.Beat.String(),
		"--settle", "1m", "-o", "json",
	}
	r.sim = exec.CommandContext(ctx, filepath.Join(r.fleet.Bin, "garrison-sim"), append(args, r.options.Flags...)...)
	r.sim.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.fleet.Dir}
	r.sim.Stdout, r.sim.Stderr = &r.stdout, &r.stderr
	r.sim.WaitDelay = 10 * time.Second
	return r.sim.Start()
}

// Stop ends the simulation, which checks the ledger first, and returns what it printed. It does nothing before
// Simulate.
func (r *Runner) Stop() (s Summary, err error) {
	if r.sim == nil || r.sim.Process == nil {
		return s, nil
	}
	kill := time.AfterFunc(r.options.Within, func() { _ = r.sim.Process.Kill() })
	defer kill.Stop()
	if err := r.sim.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return s, err
	}
	if err = r.sim.Wait(); err != nil {
		err = fmt.Errorf("garrison-sim: %w: %s", err, strings.TrimSpace(r.stderr.String()))
	}
	if e := json.Unmarshal(r.stdout.Bytes(), &s); e != nil {
		return s, errors.Join(err, fmt.Errorf("read what garrison-sim printed: %w", e))
	}
	for _, text := range s.Findings {
		err = errors.Join(err, errors.New(text))
	}
	return s, err
}

// Recovery is what a kill of garrisond in the middle of an upgrade cost.
type Recovery struct {
	Ready   time.Duration // from the start after the kill until every service answered
	Ended   time.Duration // from that start until the upgrade had ended
	Offline int           // facts that call a server offline; all are false, since none is away
}

// factsBefore is how many facts per server are in the ledger when garrisond is killed: the first two of an upgrade come
// before its server begins, so tasks are under way.
const factsBefore = 2.5

// upgradeKilled upgrades all servers, kills garrisond in the middle, and starts it again.
func (r *Runner) upgradeKilled(ctx context.Context) error {
	from, err := r.fleet.LedgerEnd(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Change(ctx) }()
	err = r.Grows(ctx, from+uint64(factsBefore*float64(r.options.Servers)))
	if err == nil {
		err = fault.Killed(r.fleet.Garrisond).Start()
	}
	if err != nil {
		return errors.Join(err, <-ended)
	}
	began := time.Now()
	err = r.fleet.Start(ctx)
	r.recovery.Ready = time.Since(began)
	err = errors.Join(err, <-ended)
	r.recovery.Ended = time.Since(began)
	if err != nil {
		return err
	}
	if err := r.Online(ctx); err != nil {
		return err
	}
	return r.countEnds(ctx, from)
}

// countEnds counts what the ledger says behind a sequence.
func (r *Runner) countEnds(ctx context.Context, from uint64) error {
	c, err := r.fleet.Client(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	succeeded := 0
	for e, err := range c.Events(ctx, client.Query{From: from + 1}) {
		if err != nil {
			return err
		}
		switch e.Fact.Body.(type) {
		case *taskv1.Succeeded:
			succeeded++
		case *serverv1.Offline:
			r.recovery.Offline++
		}
	}
	if succeeded != r.options.Servers && !r.options.Faulty {
		return fmt.Errorf("the upgrade ended and %d of %d tasks succeeded", succeeded, r.options.Servers)
	}
	return nil
}
