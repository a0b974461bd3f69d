package versions

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func runs(server, agent, version, wanted string, since time.Duration) *registryv1.InstanceRow {
	return &registryv1.InstanceRow{Instance: &instancev1.Instance{
		ServerId: server, Agent: agent, Observed: &imagev1.Ref{Version: version}, Wanted: &imagev1.Ref{Version: wanted},
		Since: timestamppb.New(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Add(-since)),
	}}
}

func TestVersionsAreCountedByWhatRunsAndWhatIsWanted(t *testing.T) {
	agents := []*agentv1.Agent{
		{Name: "executor", Kind: agentv1.Kind_KIND_SELF},
		{Name: "web", Kind: agentv1.Kind_KIND_DAEMON},
	}
	byHand := runs("b", "executor", "v0.9.0", "", time.Hour)
	byHand.ByHand = true
	rows := fleetRows(agents, []*registryv1.InstanceRow{
		runs("a", "executor", "1.0.0", "1.1.0", time.Hour), byHand,
		runs("a", "web", "1.0.0", "1.0.0", time.Minute), runs("b", "web", "2.0.0", "2.0.0", time.Hour),
	})
	var have []string
	for _, r := range rows {
		have = append(have, r.Kind+" "+r.Name+" "+r.Version+" "+r.Wanted+" "+r.Since)
	}
	want := []string{
		"executor executor 1.0.0 1.1.0 2026-01-31T11:00:00Z", "executor executor v0.9.0  ",
		"agent web 1.0.0 1.0.0 2026-01-31T11:59:00Z", "agent web 2.0.0 2.0.0 2026-01-31T11:00:00Z",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	// Two versions of web are wanted, each where it runs; only the executor is not what is wanted.
	differ := []string{"executor executor: 1 server with 1.0.0, wanted 1.1.0, since 2026-01-31T11:00:00Z"}
	if diff := cmp.Diff(differ, versionDifferences(rows)); diff != "" {
		t.Error(diff)
	}
}

func TestProcessesOfOneServiceWithTwoVersionsDiffer(t *testing.T) {
	rows := []row{
		{Kind: kindClient, Name: "garrison", Version: "v1"}, {Kind: kindService, Name: "registry", Version: "v1"},
		{
			Kind:    kindService,
			Name:    "registry",
			Version: "v2",
		}, {Kind: kindService, Name: "task-dispatcher", Trouble: "does not answer"},
	}
	if diff := cmp.Diff([]string{"services run v1 (registry) and v2 " +
		"(registry)"}, versionDifferences(rows)); diff != "" {
		t.Error(diff)
	}
	if got := versionDifferences(rows[:2]); len(got) > 0 {
		t.Errorf("alike, and %v", got)
	}
}

func TestAnExecutorThatIsNewerThanTheServicesIsNamed(t *testing.T) {
	for executor, ahead := range map[string]bool{
		"v0.2.0": false, "0.1.0": false, "v0.3.0": true, "v0.2.0-7-gabcdef0": false, "v0.2.1-7-gabcdef0": true,
		"unstamped": false,
	} {
		rows := []row{
			{Kind: kindService, Name: "registry", Version: "v0.2.0"},
			{Kind: kindExecutor, Name: "executor", Version: executor, Count: 3},
		}
		got := versionDifferences(rows)
		if named := len(got) == 1 && strings.HasPrefix(got[0], "3 servers with executor "+executor); named != ahead {
			t.Errorf("executor %s beside services v0.2.0: %q", executor, got)
		}
	}
}
