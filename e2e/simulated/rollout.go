package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// to is the version that an upgrade or a rollout brings.
const to = "2.0.0"

// Rollout has the upgrade done by a rollout.
type Rollout struct {
	Flags []string      // of garrison rollout start, such as --waves 10%
	Kill  time.Duration // registry and task-dispatcher are killed when they answered for so long; 0 means never
}

// Rolled is how a rollout went, by the registry and by the ledger.
type Rolled struct {
	State   rolloutv1.State
	Waves   []uint32 // the servers of each
	Opened  int      // waves that began
	Counts  map[rolloutv1.TargetState]int
	Owed    int // servers that were away when the plan was made
	Touched int // servers that began to change
	Kills   int // of registry and task-dispatcher together
	Reason  string
	Took    time.Duration // from the plan to the end or the halt
	// Noticed is the time from the last change that ended badly before the rollout halted until it halted.
	Noticed  time.Duration
	Replayed string // what garrison rollout show --replay said
	Watched  string // what garrison watch printed of a rollout that came to a part of the servers

	id   string
	from uint64 // the end of the ledger before it
}

// Halted reports whether the rollout stopped by itself.
func (r Rolled) Halted() bool { return r.State == rolloutv1.State_STATE_HALTED }

// rollout brings the new version to all servers by a rollout, once the servers that vanish are known to be away.
func (r *Runner) rollout(ctx context.Context) error {
	if err := r.awaitVanished(ctx); err != nil {
		return err
	}
	from, err := r.fleet.LedgerEnd(ctx)
	if err != nil {
		return err
	}
	args := append([]string{
		"rollout", "start", sample.Agent + "@" + to, "--on", "all", "--yes", "--detach", "-o", "name",
	}, r.options.Rollout.Flags...)
	out, err := r.fleet.CLI(ctx, args...)
	if err != nil {
		return err
	}
	id := strings.TrimSpace(out)
	if err := r.watchRollout(ctx, id); err != nil {
		return err
	}
	r.rolled.id, r.rolled.from = id, from
	if err := r.readRollout(ctx, id, from); err != nil {
		return err
	}
	r.rolled.Replayed, err = r.fleet.CLI(ctx, "rollout", "show", "--replay", id)
	return err
}

// watchRollout follows a rollout by the CLI until it ends or halts, and kills services meanwhile.
func (r *Runner) watchRollout(ctx context.Context, id string) error {
	killing, stop := context.WithCancel(ctx)
	killed := make(chan error, 1)
	go func() { killed <- r.killAgainAndAgain(killing) }()
	_, err := r.fleet.CLI(ctx, "watch", id, "--timeout", r.options.Within.String())
	if e, ok := errors.AsType[*rig.CLIError](err); ok && partly[e.Code] {
		r.rolled.Watched, err = e.Stderr, nil
	}
	stop()
	return errors.Join(err, <-killed)
}

// killAgainAndAgain ends the services that decide about the rollout with SIGKILL once they have answered for some time,
// and starts them at once, until ctx is done. They run at its end.
func (r *Runner) killAgainAndAgain(ctx context.Context) error {
	services := fault.Killed(r.fleet.Services[topology.UserRegistry], r.fleet.Services[topology.UserDispatcher])
	for every := r.options.Rollout.Kill; every > 0 && rig.Sleep(ctx, every) == nil; r.rolled.Kills++ {
		if err := services.For(ctx, 0); err != nil {
			return err
		}
		if err := r.fleet.WaitReady(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// awaitVanished waits until as many servers are offline as garrison-sim says that vanish, and all others are online:
// on a busy machine a server may be called offline for a moment.
func (r *Runner) awaitVanished(ctx context.Context) error {
	var faults map[string]int
	data, err := os.ReadFile(filepath.Join(r.simDir(), "faults.json"))
	if err == nil {
		err = json.Unmarshal(data, &faults)
	}
	if err != nil {
		return fmt.Errorf("read the faults of the servers: %w", err)
	}
	gone := faults["vanishing"]
	return r.await(ctx, map[string]int{"offline": gone, "online": r.options.Servers - gone})
}

// readRollout reads what became of the rollout.
func (r *Runner) readRollout(ctx context.Context, id string, from uint64) error {
	c, err := r.fleet.Client(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	var got *registryv1.GetRolloutResponse
	err = c.Await(ctx, func(ctx context.Context) (bool, error) {
		got, err = client.Call[*registryv1.GetRolloutResponse](ctx, c, &registryv1.GetRolloutRequest{RolloutId: id})
		return err == nil, err
	})
	if err != nil {
		return err
	}
	is, to := got.GetRollout(), &r.rolled
	to.State, to.Reason, to.Counts = is.GetState(), is.GetReason().GetMessage(), map[rolloutv1.TargetState]int{}
	for _, wave := range append(is.GetWaves(), is.GetOwed()) {
		for state, n := range wave.GetCounts() {
			to.Counts[rolloutv1.TargetState(state)] += int(n)
		}
	}
	for _, wave := range is.GetWaves() {
		to.Waves = append(to.Waves, wave.GetServers())
		if wave.GetOpenedAt() != nil {
			to.Opened++
		}
	}
	to.Owed = int(is.GetOwed().GetServers())
	return r.timeRollout(ctx, c, id, from)
}

// recordedWithin bounds the wait until what the servers reported is recorded.
const recordedWithin = time.Minute

// times is what the ledger says of a rollout.
type times struct {
	rollout                   string
	derived                   map[string]bool   // the intents that bring its change
	tasks                     map[string]string // the server of a task
	touched                   map[string]bool
	planned, badly, last, end time.Time
	halted                    bool
}

// timeRollout reads from the ledger behind a sequence which servers the rollout touched, and how long it took.
func (r *Runner) timeRollout(ctx context.Context, c *client.Client, id string, from uint64) error {
	t := times{rollout: id, derived: map[string]bool{}, tasks: map[string]string{}, touched: map[string]bool{}}
	for e, err := range c.Events(ctx, client.Query{From: from + 1}) {
		if err != nil {
			return err
		}
		t.fold(e)
	}
	to := &r.rolled
	if to.Touched = len(t.touched); t.end.IsZero() {
		t.end = t.last
	}
	to.Took = t.end.Sub(t.planned)
	if t.halted && !t.badly.IsZero() {
		to.Noticed = t.end.Sub(t.badly)
	}
	return nil
}

// compareTouched compares the servers that the ledger says began to change with those that say so themselves, once the
// facts about those that were under way at a halt are recorded.
func (r *Runner) compareTouched(ctx context.Context, s *Summary) error {
	ctx, cancel := context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	c, err := r.fleet.Client(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	return rig.Until(ctx, "what the servers did is recorded", func(ctx context.Context) error {
		err := r.timeRollout(ctx, c, r.rolled.id, r.rolled.from)
		if s.Rolled = r.rolled; err == nil && s.Tried[to] != s.Rolled.Touched {
			err = fmt.Errorf("%d servers began to change to %s; the ledger has %d", s.Tried[to], to, s.Rolled.Touched)
		}
		return err
	})
}

// touch notes the server of a task that began there.
func (t *times) touch(e client.Event) {
	if server := t.tasks[e.Key]; server != "" {
		t.touched[server] = true
	}
}

// bad notes when a task ended badly, until the rollout ends.
func (t *times) bad(e client.Event) {
	if t.tasks[e.Key] != "" && t.end.IsZero() {
		t.badly = e.StoredAt
	}
}

func (t *times) fold(e client.Event) {
	switch b := e.Fact.Body.(type) {
	case *intentv1.Accepted:
		t.derived[e.Key] = b.GetIntent().GetSource().GetRolloutId() == t.rollout && b.GetIntent().GetUndo() == nil
	case *taskv1.Queued, *taskv1.Assigned:
		if q := task.Opened(e.Fact.Body); q != nil && t.derived[q.GetIntentId()] {
			t.tasks[e.Key] = q.GetServerId()
		}
	case *taskv1.Started, *taskv1.Succeeded:
		t.touch(e)
	case *taskv1.Failed, *taskv1.Undone:
		t.touch(e)
		t.bad(e)
	case *taskv1.Expired:
		t.bad(e)
	case *rolloutv1.Planned:
		t.planned = e.StoredAt
	case *rolloutv1.Halted:
		t.end, t.halted = e.StoredAt, true
	case *rolloutv1.Succeeded:
		t.end = e.StoredAt
	}
	t.last = e.StoredAt
}
