package operator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// A wait may last for an hour. A question of it whose answer is lost, as when the bus is
// started anew, must not.
func TestAWaitGoesOnAfterALostAnswer(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	task := &taskv1.Task{Id: web1, ServerId: web1, Agent: "beacon", State: taskv1.State_STATE_RUNNING}
	var asked atomic.Int32
	s := service(t, &fakes{}, b.Dial(t, ledger.Dispatcher), client.Services[ledger.Dispatcher], "v1.0.0")
	err := bus.Handle(
		s,
		"GetTask",
		func(ctx context.Context, _ bus.Caller, _ *dispatcherv1.GetTaskRequest) (*dispatcherv1.GetTaskResponse, error) {
			switch asked.Add(1) {
			case 1:
			case 2:
				<-ctx.Done() // much later than anybody waits for one answer
			default:
				task = proto.CloneOf(task)
				task.State = taskv1.State_STATE_SUCCEEDED
			}
			return &dispatcherv1.GetTaskResponse{Task: task}, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	s2 := cli.NewEnv(strings.NewReader(""), &out, &errs, func(string) string { return "" })
	s2.Conn, s2.Patience = b.Dial(t, "alice"), time.Second
	began := time.Now()
	if err := watch.FollowTasks(t.Context(), s2, 30*time.Second, []string{web1}, true); cli.CodeOf(err) != cli.ExitOK {
		t.Errorf("%v after %v: %s%s", err, time.Since(began), &out, &errs)
	}
}

// What is known of an intent that the bus did not confirm is said, and no more.
func TestAnIntentThatTheBusDidNotConfirm(t *testing.T) {
	t.Parallel()
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{}}}
	for _, c := range []struct {
		name  string
		takes bool // something takes the intent and never answers
		says  string
	}{
		{"no process took it", false, "is not stored"},
		{"its answer was lost", true, "it alone knows whether the intent is stored; once it answers: garrison watch "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := bustest.StartEmpty(t) // it stores nothing, as one of too few servers
			if c.takes {
				silent := b.Dial(t, "silent")
				if _, err := silent.Subscribe(topology.IntentSubjects, func(bus.Message) {}); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs strings.Builder
			env := cli.NewEnv(strings.NewReader(""), &out, &errs, func(string) string { return "" })
			env.Conn, env.Patience = b.Dial(t, "alice"), time.Second
			id, _, err := env.Decide(t.Context(), ask)
			said := errs.String()
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(said, c.says) ||
				c.takes != strings.Contains(said, id) || strings.Count(said, "waiting up to") != 1 {
				t.Errorf("%v, and it says %q; want one line that it waits, and %q", err, said, c.says)
			}
		})
	}
}

// A dispatcher of a newer version may say what this program does not know. A wait must not take it for an end.
func TestAStateThatIsNotKnownIsNoEnd(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	s := service(t, &fakes{}, b.Dial(t, ledger.Dispatcher), client.Services[ledger.Dispatcher], "v9.0.0")
	err := bus.Handle(s, "GetTask", func(
		context.Context, bus.Caller, *dispatcherv1.GetTaskRequest,
	) (*dispatcherv1.GetTaskResponse, error) {
		task := &taskv1.Task{Id: web1, ServerId: web1, Agent: "beacon", State: 99}
		return &dispatcherv1.GetTaskResponse{Task: task}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	env := cli.NewEnv(strings.NewReader(""), &out, &errs, func(string) string { return "" })
	env.Conn = b.Dial(t, "alice")
	err = watch.FollowTasks(t.Context(), env, 30*time.Second, []string{web1}, true)
	said := errs.String() + cli.LineOf(err)
	if code := cli.CodeOf(err); code != cli.ExitError || !strings.Contains(said, "UNKNOWN_FIELD") ||
		!strings.Contains(said, "unknown-99") ||
		strings.Count(said, "newer than this garrison") != 1 {
		t.Errorf("%v: %s%s; want that the state is not known", err, &out, said)
	}
}

func TestAnInterruptedBuildLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"garrison.yaml": "agent: a\nversion: 1.0.0\nkind: files\n", "file": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	env := cli.NewEnv(strings.NewReader(""), &stdout, &stderr, func(string) string { return "" })
	code := run(ctx, env, []string{"image", "build", dir, "--out", filepath.Join(out, "a.gimg")})
	if code != cli.ExitInterrupted || stderr.String() != "garrison: interrupted\n" {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
