package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
func measureSteps(b *testing.B) []figure {
	w := begin(b)
	// Enough versions that the server never still keeps the next one.
	rotation := []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "6.0.0"}
	var of []sample.Version
	for _, v := range rotation {
		of = append(of, quick(v))
	}
	w.versions(of...)
	must(w.AddServer(b.Context(), "alpha"))(b)
	w.waitOnline(1)
	w.ok("install", "beacon@1.0.0", "--on", "all", "--at-once")
	took := map[string][]float64{}
	n := asked.scaled(100)
	for i := range n {
		w.ok("up", "beacon@"+rotation[(i+1)%len(rotation)], "--on", "all", "--yes", "--at-once")
		t := lastTask(b, w, sample.Agent, taskv1.State_STATE_SUCCEEDED)
		for _, step := range t.GetOutcome().GetSteps() {
			ms := step.GetTook().AsDuration().Seconds() * 1000
			took[stepName(step.GetStep())] = append(took[stepName(step.GetStep())], ms)
		}
	}
	var out []figure
	for step := range strings.FieldsSeq("check reserve fetch verify stage rehearse switch prove commit sweep") {
		if ms := slices.Sorted(slices.Values(took[step])); len(ms) > 0 {
			out = append(out, figure{"upgrade, " + step + ", ms",
				fmt.Sprintf("p50 %.1f, p99 %.1f (n=%d)", median(ms), ms[len(ms)*99/100], len(ms)), "", "", ""})
		}
	}
	return out
}

func stepName(s taskv1.Step) string { return strings.ToLower(strings.TrimPrefix(s.String(), "STEP_")) }

// measureFootprint measures an executor that has one agent running and nothing to do.
func measureFootprint(b *testing.B) []figure {
	w, server := oneServer(b, quick("1.0.0"), quick("2.0.0"))
	check(b, rig.Sleep(b.Context(), 15*time.Second))
	uses := must(rig.Uses(server.Executor.Pid()))(b)
	info := must(os.Stat(filepath.Join(w.Bin, "executor")))(b)
	return []figure{
		{"executor, idle with one agent, resident MB", fmt.Sprintf("%.1f", uses.ResidentKB/1024), "", "", "<= 25"},
		{"executor, binary, MB", fmt.Sprintf("%.1f", float64(info.Size())/(1<<20)), "", "", ""},
	}
}

// lastTask waits until the newest task of an agent has ended in a state, and returns it.
func lastTask(b *testing.B, w *world, agent string, state taskv1.State) (t *taskv1.Task) {
	c := w.client()
	w.poll(fmt.Sprintf("the last task of %s is %s", agent, state), func() (bool, error) {
		q := &dispatcherv1.ListTasksRequest{Agent: agent, Page: &apiv1.Page{Limit: 1}}
		r, err := client.Call[*dispatcherv1.ListTasksResponse](b.Context(), c, q)
		if err != nil || len(r.GetTasks()) == 0 {
			return false, err
		}
		t = r.GetTasks()[0]
		return t.GetState() == state, nil
	})
	return t
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
