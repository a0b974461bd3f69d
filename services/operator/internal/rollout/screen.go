package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// mostBars is how many waves have a bar at once: those around the one that is open or next.
const mostBars = 8

// screen returns what a terminal shows of a rollout that goes on: a bar for each wave, the counts and the pace, what it
// waits for, and how long it goes on.
func screen(r *registryv1.GetRolloutResponse, pace, left string) (lines []string) {
	waves := r.GetRollout().GetWaves()
	now := nowIn(r)
	first := max(0, min(int(now)-mostBars/2, len(waves)-mostBars))
	for n := first; n < min(first+mostBars, len(waves)); n++ {
		lines = append(lines, display.WaveBar(n+1, waves[n], len(waves)))
	}
	counts := display.CountsText(r.GetRollout())
	if pace != "" {
		counts += "; " + pace
	}
	lines = append(lines, counts)
	if r.GetWaitsFor() != "" {
		lines = append(lines, "waits for "+r.GetWaitsFor())
	}
	if ahead := display.FetchedAheadText(r.GetRollout()); ahead != "" {
		lines = append(lines, "fetched ahead: "+ahead)
	}
	if left != "" && !over(r) {
		lines = append(lines, "time left: "+left)
	}
	return lines
}

// nowIn returns the wave that is open or next; the last one once all passed.
func nowIn(r *registryv1.GetRolloutResponse) uint32 {
	if now := noun.Current(r.GetRollout()); now > 0 {
		return now
	}
	return uint32(len(r.GetRollout().GetWaves()))
}

// progress returns the same in one line, with the wave that is open, where there is no terminal to draw on. What it
// waits for comes before how long it goes on.
func progress(r *registryv1.GetRolloutResponse, left string) string {
	now := nowIn(r)
	text := display.WaveText(now, noun.Wave(r.GetRollout(), now), len(r.GetRollout().GetWaves()))
	if r.GetWaitsFor() != "" {
		text += "; waits for " + strings.TrimPrefix(r.GetWaitsFor(), fmt.Sprintf("wave %d: ", now))
	}
	if ahead := display.FetchedAheadText(r.GetRollout()); ahead != "" {
		text += "; fetched ahead: " + ahead
	}
	if left != "" && !over(r) {
		text += "; time left: " + left
	}
	return text
}

// leftAfter returns how long a rollout goes on when some time has gone by since that was answered; empty when it is not
// known.
func leftAfter(last, answer *registryv1.GetRolloutResponse, gone time.Duration, at time.Time) string {
	rest := func(d *durationpb.Duration) *durationpb.Duration {
		if d == nil {
			return nil
		}
		return durationpb.New(max(0, d.AsDuration()-gone))
	}
	return display.LeftText(&registryv1.GetRolloutResponse{
		Rollout: last.GetRollout(), SlowCount: last.GetSlowCount(),
		Left_50: rest(answer.GetLeft_50()), Left_90: rest(answer.GetLeft_90()),
	}, at)
}

const (
	// paceOver is the time that a pace is the mean of, and paceFrom the least one from which it is shown.
	paceOver, paceFrom = 2 * time.Minute, 5 * time.Second
)

// pace is how many servers of a rollout end in a minute. The zero value is ready to use.
type pace struct {
	seen []mark // the oldest first
}

// mark is how many servers had ended at a time.
type mark struct {
	at    time.Time
	ended uint32
}

// add notes how many servers have ended.
func (p *pace) add(at time.Time, ended uint32) {
	p.seen = append(p.seen, mark{at, ended})
	for len(p.seen) > 2 && at.Sub(p.seen[1].at) >= paceOver {
		p.seen = p.seen[1:]
	}
}

// text returns the pace; "" before it is known.
func (p *pace) text() string {
	if len(p.seen) == 0 {
		return ""
	}
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	over := last.at.Sub(first.at)
	if over < paceFrom || last.ended < first.ended {
		return ""
	}
	n := float64(last.ended-first.ended) / over.Minutes()
	if n >= 10 || n == 0 {
		return fmt.Sprintf("%.0f servers per minute", n)
	}
	return fmt.Sprintf("%.1f servers per minute", n)
}

// mostSlow is how many slow tasks of an agent are read.
const mostSlow = 100

// findSlow completes the slow servers of a rollout. The registry names those whose whole change takes long; the
// task-dispatcher, which alone knows the executor's steps, those whose present step does. Without its answer the
// registry's remain as they are.
func findSlow(ctx context.Context, env *cli.Env, r *registryv1.GetRolloutResponse) {
	if noun.Ended(r.GetRollout().GetState()) {
		return // what is slow there now is another change
	}
	known := slices.Clone(r.GetSlow())
	for _, agent := range r.GetRollout().GetAgents() {
		slow, err := cli.Call[*dispatcherv1.ListTasksResponse](ctx, env, &dispatcherv1.ListTasksRequest{
			Page: &apiv1.Page{Limit: mostSlow}, Agent: agent, Slow: true,
		})
		if err != nil {
			return
		}
		addSlow(r, slow.GetTasks(), fleet.ServerNames(ctx, env, slow.GetTasks()), env.Now())
	}
	for _, s := range known { // at most as many as the registry names
		tasks, err := cli.Call[*dispatcherv1.ListTasksResponse](ctx, env, &dispatcherv1.ListTasksRequest{
			Page: &apiv1.Page{Limit: 1}, ServerId: s.GetServerId(), Agent: s.GetAgent(),
			States: []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING},
		})
		if err != nil {
			return
		}
		for _, t := range tasks.GetTasks() {
			s.Step = stepText(t, s.Step)
		}
	}
}

// addSlow adds the tasks of a rollout that are slow at their step. Those of a server that is named already replace how
// long it takes: what takes long now tells more than the whole.
func addSlow(r *registryv1.GetRolloutResponse, tasks []*taskv1.Task, names map[string]string, now time.Time) {
	for _, t := range tasks {
		if t.GetQueuedAt().AsTime().Before(r.GetRollout().GetPlannedAt().AsTime()) {
			continue // another change brought it
		}
		n := slices.IndexFunc(r.Slow, func(s *registryv1.SlowServer) bool {
			return s.GetServerId() == t.GetServerId() && s.GetAgent() == t.GetAgent()
		})
		if n < 0 {
			n = len(r.Slow)
			r.Slow = append(r.Slow, &registryv1.SlowServer{
				ServerId: t.GetServerId(), ServerName: names[t.GetServerId()], Agent: t.GetAgent(),
			})
			r.SlowCount++
		}
		r.Slow[n].Step = stepText(t, listing.Word(t.GetState()))
		r.Slow[n].Took = durationpb.New(now.Sub(t.GetLive().GetSince().AsTime()))
		r.Slow[n].Median = t.GetLive().GetUsual()
	}
}

// stepText returns what a task does; otherwise what is known besides.
func stepText(t *taskv1.Task, otherwise string) string {
	if task.Waits(t) {
		return "deferred: " + t.GetReason()
	}
	if t.GetServerOfflineSince() != nil {
		return "server offline"
	}
	if step := t.GetLive().GetStep(); step != taskv1.Step_STEP_UNSPECIFIED {
		return "at step " + listing.Word(step)
	}
	return otherwise
}
