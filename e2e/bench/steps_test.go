package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// measureSteps upgrades one server many times, and splits the time as the executor
// reports it.
func measureSteps(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	// Enough versions that the server never still keeps the next one.
	rotation := []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "6.0.0"}
	var of []sample.Version
	for _, v := range rotation {
		of = append(of, quick(v))
	}
	if err := versions(ctx, w, of...); err != nil {
		return nil, err
	}
	if _, err := w.AddServer(ctx, "alpha"); err != nil {
		return nil, err
	}
	if err := waitOnline(ctx, w, 1); err != nil {
		return nil, err
	}
	if _, err := w.CLI(ctx, "install", "beacon@1.0.0", "--on", "all", "--at-once"); err != nil {
		return nil, err
	}
	took := map[string][]float64{}
	n := s.scaled(100)
	for i := range n {
		if _, err := w.CLI(ctx, "up", "beacon@"+rotation[(i+1)%len(rotation)], "--on", "all", "--yes",
			"--at-once"); err != nil {
			return nil, err
		}
		t, err := lastTask(ctx, w, sample.Agent, taskv1.State_STATE_SUCCEEDED)
		if err != nil {
			return nil, err
		}
		for _, step := range t.GetOutcome().GetSteps() {
			ms := step.GetTook().AsDuration().Seconds() * 1000
			took[stepName(step.GetStep())] = append(took[stepName(step.GetStep())], ms)
		}
	}
	var out []figure
	for step := range strings.FieldsSeq("check reserve fetch verify stage rehearse switch prove commit sweep") {
		if ms := slices.Sorted(slices.Values(took[step])); len(ms) > 0 {
			out = append(out, figure{
				"upgrade, " + step + ", ms",
				fmt.Sprintf("p50 %.1f, p99 %.1f (n=%d)", median(ms), ms[len(ms)*99/100], len(ms)),
				"",
				"",
				"",
			})
		}
	}
	return out, nil
}

func stepName(s taskv1.Step) string { return strings.ToLower(strings.TrimPrefix(s.String(), "STEP_")) }

// measureFootprint measures an executor that has one agent running and nothing to do.
func measureFootprint(ctx context.Context, s settings) (_ []figure, err error) {
	w, server, err := oneServer(ctx, s, quick("1.0.0"), quick("2.0.0"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := rig.Sleep(ctx, 15*time.Second); err != nil { // so that the memory of the change is freed
		return nil, err
	}
	uses, err := rig.Uses(server.Executor.Pid())
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(s.bin, "executor"))
	if err != nil {
		return nil, err
	}
	return []figure{
		{"executor, idle with one agent, resident MB", fmt.Sprintf("%.1f", uses.ResidentKB/1024), "", "", "<= 25"},
		{"executor, binary, MB", fmt.Sprintf("%.1f", float64(info.Size())/(1<<20)), "", "", ""},
	}, nil
}

// lastTask waits until the newest task of an agent has ended in a state, and returns it.
func lastTask(ctx context.Context, w *world, agent string, state taskv1.State) (t *taskv1.Task, err error) {
	c, err := w.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = poll(ctx, fmt.Sprintf("the last task of %s is %s", agent, state), func() (bool, error) {
		q := &dispatcherv1.ListTasksRequest{Agent: agent, Page: &apiv1.Page{Limit: 1}}
		r, err := client.Call[*dispatcherv1.ListTasksResponse](ctx, c, q)
		if err != nil || len(r.GetTasks()) == 0 {
			return false, err
		}
		t = r.GetTasks()[0]
		return t.GetState() == state, nil
	})
	return t, err
}

// seconds returns how long the steps of a task took together.
func seconds(t *taskv1.Task, steps ...taskv1.Step) (sum float64) {
	for _, s := range t.GetOutcome().GetSteps() {
		for _, want := range steps {
			if s.GetStep() == want {
				sum += s.GetTook().AsDuration().Seconds()
			}
		}
	}
	return sum
}
