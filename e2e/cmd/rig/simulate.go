package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/simulated"
)

// stepWithin bounds each step.
const stepWithin = 30 * time.Minute

// sickShare is the share of servers that have each fault of their own during a rollout.
const sickShare = "0.01"

// asked are the flags.
type asked struct {
	bin                           *string
	waves, maxBroken              string
	servers, concurrency          int
	fault                         float64
	seed                          uint64
	kill, rollout                 bool
	duration, deadline, killEvery time.Duration
}

// simulate starts a fleet of simulated servers, installs an agent on all of them, upgrades it, and prints how long that
// took and what processor time garrisond used. It fails unless the ledger agrees with what the servers did.
//
// With --rollout the upgrade is a rollout in waves. Of the servers 1 % have gone before it begins, 1 % are slow and on
// 1 % the change never ends (not with --kill-every); --fault is the share on which the new version does not work.
func simulate(flags *flag.FlagSet) func(context.Context) error {
	a := &asked{bin: binaries(flags)}
	flags.IntVar(&a.servers, "servers", 100, "how `MANY` servers")
	flags.Float64Var(&a.fault, "fault", 0, "share of servers that fail, and the same share that are slow, flap or "+
		"mislead; with --rollout the share on which the new version does not work")
	flags.Uint64Var(&a.seed, "seed", 1, "decides faults and durations")
	flags.BoolVar(&a.kill, "kill", false, "kill garrisond in the middle of the upgrade")
	flags.DurationVar(&a.duration, "duration", 200*time.Millisecond, "mean duration of a task")
	flags.IntVar(&a.concurrency, "concurrency", 0, "how many tasks are under way at once; 0 means the default")
	flags.BoolVar(&a.rollout, "rollout", false, "upgrade by a rollout in waves")
	flags.StringVar(&a.waves, "waves", "1%,10%,50%", "the waves of the rollout; the rest is the last one")
	flags.StringVar(&a.maxBroken, "max-broken", "3%", "how many servers the rollout may break")
	flags.DurationVar(&a.deadline, "task-deadline", 30*time.Second, "how long a task of the rollout may take")
	flags.DurationVar(&a.killEvery, "kill-every", 0, "kill registry and task-dispatcher this often during the rollout")
	return a.run
}

// options returns what is simulated.
func (a *asked) options() simulated.Options {
	o := simulated.Options{
		Servers: a.servers, Within: stepWithin, Faulty: a.fault > 0, Kill: a.kill,
		Flags: append(faults(a.fault, a.seed), "--duration", a.duration.String()),
	}
	if !a.rollout {
		return o
	}
	o.Faulty, o.Flags = true, []string{
		"--seed", strconv.FormatUint(a.seed, 10), "--duration", a.duration.String(),
		"--vanishing", sickShare, "--slow", sickShare,
	}
	if a.killEvery == 0 { // a dispatcher that lives shorter than its grace expires no task, so none of them would end
		o.Flags = append(o.Flags, "--hanging", sickShare)
	}
	if a.fault > 0 {
		o.Flags = append(o.Flags, "--bad", "2.0.0="+strconv.FormatFloat(a.fault, 'g', -1, 64))
	}
	o.Rollout = &simulated.Rollout{
		Kill: a.killEvery, Flags: []string{"--waves", a.waves, "--max-broken", a.maxBroken, "--silence", "1m"},
	}
	if a.concurrency > 0 {
		o.Rollout.Flags = append(o.Rollout.Flags, "--concurrency", strconv.Itoa(a.concurrency))
	}
	return o
}

// faults returns the flags of garrison-sim for a share of each fault.
func faults(share float64, seed uint64) []string {
	args := []string{"--seed", strconv.FormatUint(seed, 10)}
	if share == 0 {
		return args
	}
	for _, name := range []string{"--failing", "--slow", "--flapping", "--misleading"} {
		args = append(args, name, strconv.FormatFloat(share, 'g', -1, 64))
	}
	return args
}

func (a *asked) run(ctx context.Context) error {
	fo := rig.Options{Bin: *a.bin, Beat: 5 * time.Second}
	if a.rollout {
		fo.Deadline, fo.Apart, fo.Views = a.deadline, a.killEvery > 0, true
	}
	return rig.Temporary(fo, func(f *rig.Fleet) error {
		if a.concurrency > 0 && !fo.Apart {
			f.Garrisond.AddArgs("--concurrency", strconv.Itoa(a.concurrency))
		}
		o := a.options()
		steps, s, err := simulated.Run(ctx, f, o)
		showSteps(steps, s)
		switch {
		case o.Rollout != nil:
			showRollout(s.Rolled)
		case o.Kill:
			fmt.Printf("killed: services ready after %.2f s, upgrade ended after %.2f s, %d false offline\n",
				s.Recovery.Ready.Seconds(), s.Recovery.Ended.Seconds(), s.Recovery.Offline)
		}
		return err
	})
}

func showSteps(steps []simulated.Step, s simulated.Summary) {
	fmt.Printf("%-10s %10s %22s\n", "step", "seconds", "garrisond CPU seconds")
	for _, step := range steps {
		fmt.Printf("%-10s %10.2f %22.2f\n", step.Name, step.Took.Seconds(), step.CPU.Seconds())
	}
	fmt.Printf("\n%d servers %v, %d tasks begun, %d succeeded, %d undone\nledger: %d tasks, %d compared, %d open, "+
		"%d findings\n", s.Servers, s.Faults, s.Begun, s.Succeeded, s.Undone, s.Tasks, s.Compared, s.Open,
		len(s.Findings))
}

// showRollout prints how the rollout went.
func showRollout(r simulated.Rolled) {
	fmt.Printf("rollout: %s after %.1f s, %d servers touched, waves %v, %d of them begun, %d kills\n",
		display(r.State.String(), "STATE_"), r.Took.Seconds(), r.Touched, r.Waves, r.Opened, r.Kills)
	for _, s := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Printf("  %5d %s\n", r.Counts[s], display(s.String(), "TARGET_STATE_"))
	}
	if r.Halted() {
		fmt.Printf("  halted %.2f s after the last change that ended badly before: %s\n", r.Noticed.Seconds(), r.Reason)
	}
}

func display(state, prefix string) string { return strings.ToLower(strings.TrimPrefix(state, prefix)) }
