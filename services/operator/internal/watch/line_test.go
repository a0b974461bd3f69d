package watch

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func TestALineNamesTheServersThatAreOfflineAndEstimatesOnlyTheOthers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	at := func() time.Time { return now }
	env := &cli.Env{Now: at, Output: &output.Printer{Now: at}}
	offline := func(server string) *taskv1.Task {
		return &taskv1.Task{ServerId: server, ServerOfflineSince: timestamppb.New(now.Add(-5 * time.Minute))}
	}
	v := &watcher{env: env, names: map[string]string{"s1": "web-1", "s2": "web-2"}, started: now.Add(-time.Minute)}
	v.progress = []display.Progress{{
		Counts:  &dispatcherv1.IntentCounts{Succeeded: 6, Running: 1, Queued: 3},
		Offline: 3, OfflineTasks: []*taskv1.Task{offline("s1"), offline("s2")},
	}}
	const want = "6/10  3 queued  1 running  about 10s left  offline: web-1 (for 5m), web-2 (for 5m) and 1 more"
	if have := strings.Join(v.parts(), "  "); have != want {
		t.Errorf("have %q\nwant %q", have, want)
	}
	v.progress[0].Counts = &dispatcherv1.IntentCounts{Succeeded: 7, Queued: 3}
	if have := strings.Join(v.parts(), "  "); strings.Contains(have, "left") {
		t.Errorf("only servers that are offline are left: %q", have)
	}
}
