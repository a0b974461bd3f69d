package simulation

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// opened returns the engine of a server with what is kept under root.
func opened(t *testing.T, root layout.Root) *engine {
	t.Helper()
	f, err := New(Config{Dir: t.TempDir(), Servers: 1, Settings: Settings{Duration: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMemory(root)
	if err != nil {
		t.Fatal(err)
	}
	return f.newEngine(root, "s", m)
}

// offered runs an engine with a document until a task's end is reported, and returns the task states that wait.
func offered(t *testing.T, e *engine, d *desiredv1.Document) (states []taskv1.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.run(ctx) }()
	e.Offer(d)
	for {
		states = states[:0]
		all, _ := e.Waiting(100)
		for _, w := range all {
			var r reportv1.Report
			if err := proto.Unmarshal(w.Data, &r); err != nil {
				t.Fatal(err)
			}
			if r.GetTask() != nil {
				states = append(states, r.GetTask().GetState())
			}
		}
		if slices.Contains(states, taskv1.State_STATE_SUCCEEDED) {
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			return states
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no end of the task is reported: %v", states)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAServerThatIsStartedAgainContinues(t *testing.T) {
	root, err := layout.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desiredv1.Document{ServerId: "s", Generation: 9, Entries: []*desiredv1.Entry{{
		Agent: "web", InstanceId: "i", Generation: 1, TaskId: "t", Image: &imagev1.Manifest{Id: "a", Version: "1.0.0"},
	}}}
	first := opened(t, root)
	want := []taskv1.State{taskv1.State_STATE_SUCCEEDED}
	if have := offered(t, first, d); !slices.Equal(have, want) {
		t.Errorf("the first start reports %v, want %v", have, want)
	}
	all, _ := first.Waiting(100)
	for _, w := range all {
		if err := first.Acknowledge(w.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, root)
	if have := offered(t, again, d); !slices.Equal(have, want) { // the document still shows the task
		t.Errorf("the second start reports %v, want the end alone", have)
	}
	is := again.truth()
	if is.Agents["web"] != "a" || is.Ended["t"] != taskv1.State_STATE_SUCCEEDED || again.seen.Begun.Load() != 0 {
		t.Errorf("after the second start: %+v, %d begun", is, again.seen.Begun.Load())
	}
}
