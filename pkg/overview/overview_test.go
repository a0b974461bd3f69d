package overview

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func counted(groups ...*registryv1.CountGroup) *registryv1.Counts {
	c := &registryv1.Counts{Groups: groups}
	for _, g := range groups {
		c.Total += g.Count
	}
	return c
}

func group(n uint64, values ...string) *registryv1.CountGroup {
	return &registryv1.CountGroup{Values: values, Count: n}
}

func TestEnvironmentsThatAreClosedAreShown(t *testing.T) {
	at := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	frozen := &environmentv1.Environment{Name: "prod", Freezes: []*environmentv1.Freeze{{
		Until: timestamppb.New(at.Add(time.Hour)), Reason: "feast",
	}}}
	night := &environmentv1.Environment{Name: "lab", Windows: []*environmentv1.Window{{FromMinute: 60, Minutes: 60}}}
	for _, c := range []struct {
		all  []*environmentv1.Environment
		want []AttentionPoint
	}{
		{[]*environmentv1.Environment{{Name: "open"}}, nil},
		{[]*environmentv1.Environment{frozen}, []AttentionPoint{
			{1, "environment prod is held: feast, until 2026-12-24T13:00:00Z", "garrison env list"},
		}},
		{[]*environmentv1.Environment{frozen, {Name: "open"}, night}, []AttentionPoint{
			{2, "environments are held or outside their windows: prod, lab", "garrison env list"},
		}},
	} {
		f := fleetOf(answers{at: at, environments: &registryv1.ListRecordsResponse{Environments: c.all}})
		if d := cmp.Diff(c.want, f.Waiting); d != "" {
			t.Errorf("(-want +have):\n%s", d)
		}
	}
}

func TestTheScreenShowsCountsAndWhatNeedsAPerson(t *testing.T) {
	f := fleetOf(answers{
		servers: &registryv1.CountServersResponse{Counts: counted(
			group(10, "alive", "online", "enrolled", ""),
			group(2, "alive", "offline", "enrolled", "DUPLICATE_IDENTITY"),
			group(1, "alive", "online", "quarantined", ""), group(3, "invited", "", "", ""),
			group(4, "alive", "late", "enrolled", ""),
			group(2, "alive", "online", "enrolled", ""),
		)},
		versions: &registryv1.CountInstancesResponse{Counts: counted(
			group(9, "beacon", "1.2.0"), group(3, "node-exporter", "1.9.1"), group(1, "beacon", ""),
		)},
		states: &registryv1.CountInstancesResponse{Counts: counted(
			group(9, "converged", "good", "online"), group(2, "converged", "good", "offline"),
			group(1, "failed", "good", "online"), group(1, "drifted", "bad", "offline"),
		)},
		tasks: &dispatcherv1.CountTasksResponse{Groups: []*dispatcherv1.TaskGroup{
			{Values: []string{"queued"}, Count: 4}, {Values: []string{"running"}, Count: 1},
		}},
		busy:     &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 2}},
		defaults: &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 40}},
		slow:     &dispatcherv1.CountTasksResponse{Total: 1},
		environments: &registryv1.ListRecordsResponse{Environments: []*environmentv1.Environment{
			{Name: "prod", Braked: &environmentv1.Brake{}}, {Name: "test"},
		}},
		immovable: []string{"test"},
		stale:     &registryv1.ListInstancesResponse{Instances: make([]*registryv1.InstanceRow, 3)},
	})
	want := `servers        22  13 online, 4 late, 2 offline; 3 invited; 1 quarantined
instances      13  9 converged, 2 offline, 1 drifted, 1 failed; 10 good, 2 unknown, 1 bad
tasks           5  1 running, 4 queued

AGENT          VERSION  INSTANCES
beacon         1.2.0    9
node-exporter  1.9.1    3
beacon         -        1

ENDS BY ITSELF
     2  servers are in a critical section, so changes wait
        garrison server list --condition busy
     1  task takes much longer than usual: garrison task list --slow

NEEDS A PERSON
     2  servers are offline: garrison server list --presence offline
     1  instance failed to change: garrison instance list --state failed
     1  instance is not healthy: garrison instance list --health bad
     1  instance drifted: garrison check
    40  servers wait for a default: garrison env default
     3  external instances have no recent report: garrison instance list --stale
     1  environment heals no drift: prod: garrison env show prod
     1  environment has a keep budget that lets no server change: test
        garrison env show test
     2  servers have the trouble DUPLICATE_IDENTITY
        garrison server list --trouble DUPLICATE_IDENTITY
     1  server is quarantined: garrison server list --standing quarantined
`
	if d := cmp.Diff(want, f.Text(false)); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

// While presence is held, the silent servers are late, and how far their tasks are is not known.
func TestWhilePresenceIsHeldNoTaskIsSlow(t *testing.T) {
	f := fleetOf(answers{
		presence: &registryv1.ListServersResponse{PresenceHeld: &registryv1.PresenceHeld{Silent: 30, Of: 100}},
		slow:     &dispatcherv1.CountTasksResponse{Total: 3},
	})
	want := []AttentionPoint{{
		30, "servers are silent at once, so presence is held", "garrison server list --presence late",
	}}
	if d := cmp.Diff(want, f.Attention) + cmp.Diff([]AttentionPoint(nil), f.Waiting); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

func TestABuildThatFailedOnOneServerIsNamed(t *testing.T) {
	build := &blockv1.Build{Agent: "web", Image: &imagev1.Ref{Version: "2.0.0"}, Platform: "linux/amd64"}
	f := fleetOf(answers{suspected: &registryv1.ListRecordsResponse{Blocks: []*blockv1.Block{
		{Build: build, Failed: 1, Reason: "it failed on 1 server and works on 0"},
	}}})
	want := []AttentionPoint{{
		1, "build failed and is not blocked: web 2.0.0 for linux/amd64, it failed on 1 server and works on 0",
		"garrison block list --suspected",
	}}
	if d := cmp.Diff(want, f.Attention); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

// What a person blocked on purpose, and what ends by itself, stood under what needs a person for good.
func TestWhatIsDecidedOrEndsByItselfNeedsNoPerson(t *testing.T) {
	owing := &rolloutv1.Rollout{Id: "r-1", Owed: &rolloutv1.Wave{
		Servers: 19, Counts: map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_OWED): 19},
	}}
	f := fleetOf(answers{
		blocks: &registryv1.ListRecordsResponse{Blocks: []*blockv1.Block{{SetBy: "ann"}, {Failed: 3}}},
		owing:  &registryv1.ListRolloutsResponse{Rollouts: []*rolloutv1.Rollout{owing}},
		states: &registryv1.CountInstancesResponse{Counts: counted(
			group(2, "drifted", "bad", "online"), group(3, "drifted", "good", "online"),
		)},
		healed: &registryv1.CountInstancesResponse{Counts: counted(
			group(1, "heals", "bad"), group(3, "heals", "good"), group(1, "", "bad"),
		)},
	})
	attention := []AttentionPoint{
		{1, "instance is not healthy", "garrison instance list --health bad"},
		{1, "instance drifted", "garrison check"},
		{1, "build failed and is blocked until garrison unblock or image delete", "garrison block list"},
	}
	waiting := []AttentionPoint{
		{19, "servers are owed the change of a rollout, and get it when they are back",
			"garrison rollout show r-1 --servers --state owed"},
		{4, "instances drifted, and their executors repair them", "garrison check"},
	}
	if d := cmp.Diff(attention, f.Attention) + cmp.Diff(waiting, f.Waiting); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

func TestARolloutThatWaitsForAPersonIsNamed(t *testing.T) {
	passed := &rolloutv1.Wave{
		OpenedAt: &timestamppb.Timestamp{}, PassedAt: &timestamppb.Timestamp{},
		Counts: map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): 1},
	}
	running := func(id string, approve bool, until uint32) *rolloutv1.Rollout {
		return &rolloutv1.Rollout{
			Id: id, State: rolloutv1.State_STATE_RUNNING, Waves: []*rolloutv1.Wave{passed, {}}, UntilWave: until,
			Strategy: &rolloutv1.Strategy{Approve: approve},
		}
	}
	f := fleetOf(answers{
		rollouts: &registryv1.ListRolloutsResponse{Rollouts: []*rolloutv1.Rollout{
			running("r-1", true, 0), running("r-2", false, 1), running("r-3", true, 1), running("r-4", false, 0),
			{Id: "r-5", State: rolloutv1.State_STATE_PAUSED},
		}, Waits: map[string]*registryv1.RolloutWait{"r-4": {Immovable: true}, "r-1": {Text: "an approval"}}},
	})
	want := []AttentionPoint{
		{1, "rollout waits for an approval", "garrison rollout approve r-1"},
		{2, "rollouts stopped after a wave", "garrison rollout list --state running"},
		{1, "rollout waits for a keep budget that lets no server change", "garrison rollout show r-4"},
		{1, "rollout is paused", "garrison rollout list --state paused"},
	}
	if d := cmp.Diff(want, f.Attention); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
	if text := f.Text(false); !strings.Contains(text, "rollouts        5\n  r-1  ") ||
		!strings.Contains(text, ": running, waits for an approval, wave 2/2\n") {
		t.Errorf("the screen names no rollouts:\n%s", text)
	}
}

func TestAFleetWithoutTroubleNeedsNoPerson(t *testing.T) {
	f := fleetOf(answers{servers: &registryv1.CountServersResponse{Counts: counted(
		group(2, "alive", "online", "enrolled", ""),
	)}})
	want := "servers         2  2 online\ninstances       0\n\nNothing needs a person.\n"
	if d := cmp.Diff(want, f.Text(false)); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

// garrisond renews its certificates when 30 days are left, so one with less than two weeks is renewed by no program.
func TestWhatExpiresAndWhatNoKeySignedNeedAPerson(t *testing.T) {
	at := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	soon := AttentionPoint{
		1, "certificate of the bus is valid until 2026-12-11", "garrisond keys, or the files of garrisond --tls-cert",
	}
	always := []AttentionPoint{
		{1, "active image is signed by no key of the catalog", "garrison image list --state active --untrusted"},
		{2, "servers have the trouble EXPIRED_TOKEN",
			"garrison server list --trouble EXPIRED_TOKEN"},
		{1, "server has the trouble NO_IMAGE_KEYS",
			"garrison server list --trouble NO_IMAGE_KEYS"},
	}
	for left, want := range map[time.Duration][]AttentionPoint{
		13 * 24 * time.Hour: append([]AttentionPoint{soon}, always...), 15 * 24 * time.Hour: always,
	} {
		f := fleetOf(answers{
			at: at, certificateUntil: at.Add(left),
			expired:   &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 2}},
			keyless:   &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 1}},
			untrusted: &catalogv1.ListImagesResponse{Images: make([]*imagev1.Image, 1)},
		})
		if d := cmp.Diff(want, f.Attention); d != "" {
			t.Errorf("%v left (-want +have):\n%s", left, d)
		}
	}
}

func TestAScreenCountsTheVersionsThatItDoesNotShow(t *testing.T) {
	var groups []*registryv1.CountGroup
	for range versionsShown + 2 {
		groups = append(groups, group(5, "beacon", "1.0.0"))
	}
	c := counted(groups...)
	c.Others = 7
	f := fleetOf(answers{versions: &registryv1.CountInstancesResponse{Counts: c}})
	have := f.Text(false)
	want := "… and 17 instances of others: garrison instance list --count-by agent,version\n"
	if !strings.Contains(have, want) || strings.Contains(f.Text(true), "17 instances") {
		t.Errorf("have:\n%s", have)
	}
}
