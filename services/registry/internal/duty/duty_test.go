package duty

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestDutiesFollowFromThePresentState(t *testing.T) {
	const alive, dying, dead = serverv1.Life_LIFE_ALIVE, serverv1.Life_LIFE_DYING, serverv1.Life_LIFE_DEAD
	wanted := &instancev1.Instance{
		Id:        "w",
		Agent:     "w",
		Wanted:    &imagev1.Ref{Id: "i"},
		TaskState: taskv1.State_STATE_SUCCEEDED,
	}
	leaving := &instancev1.Instance{Id: "l", Agent: "l", TaskState: taskv1.State_STATE_RUNNING}
	removed := &instancev1.Instance{Id: "r", Agent: "r", TaskState: taskv1.State_STATE_SUCCEEDED}
	for _, c := range []struct {
		name      string
		life      serverv1.Life
		instances []*instancev1.Instance
		want      []string // a unit each
	}{
		{"alive, all wanted", alive, []*instancev1.Instance{wanted}, nil},
		{"alive, one removed", alive, []*instancev1.Instance{wanted, leaving, removed}, []string{"r Gone "}},
		{"invited", serverv1.Life_LIFE_INVITED, nil, nil},
		{"dying, one still leaving", dying, []*instancev1.Instance{leaving, removed}, nil},
		{"dying, all removed", dying, []*instancev1.Instance{removed, removed}, []string{"r Gone r Gone - Dead "}},
		{"dying, nothing there", dying, nil, []string{"- Dead "}},
		{
			"dying, one wanted at the last moment", dying, []*instancev1.Instance{removed, wanted},
			[]string{"w Unwanted "},
		},
		{"dead, one wanted at the last moment", dead, []*instancev1.Instance{wanted}, []string{"w Gone "}},
		{"dead", dead, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &serverv1.Server{Id: "s", Life: c.life}
			var have []string
			for _, u := range Units(s, slices.Values(c.instances), time.Now()) {
				have = append(have, line(u))
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
			if due := Due(s, slices.Values(c.instances)); due != (len(c.want) > 0) {
				t.Errorf("due %v with units %v", due, c.want)
			}
		})
	}
}

func line(u Unit) (out string) {
	for _, c := range u {
		id := "-"
		if c.Instance != nil {
			id = c.Instance.Id
		}
		out += fmt.Sprintf("%s %s ", id, c.Body.ProtoReflect().Descriptor().Name())
	}
	return out
}

func TestADeathNamesWhatItWaitsFor(t *testing.T) {
	const dying, dead, manual = serverv1.Life_LIFE_DYING, serverv1.Life_LIFE_DEAD, serverv1.Ownership_OWNERSHIP_MANUAL
	const online, offline = serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_OFFLINE
	leaving := &instancev1.Instance{Agent: "l", TaskState: taskv1.State_STATE_FAILED, TaskId: "t", Reason: "busy"}
	removed := &instancev1.Instance{Agent: "r", TaskState: taskv1.State_STATE_SUCCEEDED}
	for _, c := range []struct {
		name   string
		server *serverv1.Server
		want   []string
	}{
		{"alive", &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Presence: offline}, nil},
		{"dying", &serverv1.Server{Life: dying, Presence: online}, []string{"AGENT l t busy"}},
		{
			"dying and away", &serverv1.Server{Life: dying, Presence: offline, Reason: "no beat arrives"},
			[]string{"PRESENCE   no beat arrives", "AGENT l t busy"},
		},
		{
			"dead, without a receipt", &serverv1.Server{Life: dead, Ownership: manual},
			[]string{"RECEIPT   its login ends on 1970-01-08 00:00 UTC"},
		},
		{
			"dead, with the machine",
			&serverv1.Server{Life: dead, Ownership: serverv1.Ownership_OWNERSHIP_PROVISIONED}, nil,
		},
		{
			"dead and uninstalled",
			&serverv1.Server{Life: dead, Ownership: manual, UninstalledAt: timestamppb.Now()}, nil,
		},
	} {
		var have []string
		for _, d := range Left(c.server, slices.Values([]*instancev1.Instance{leaving, removed}), nil) {
			have = append(
				have,
				fmt.Sprint(strings.TrimPrefix(d.Kind.String(), "DUTY_KIND_"), " ", d.Agent, " ", d.TaskId, " ",
					d.Reason),
			)
		}
		if diff := cmp.Diff(c.want, have); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestAServerThatIsReinstalledWaitsForItsAgentsAndThenForItsExecutor(t *testing.T) {
	wanted := &instancev1.Instance{Id: "w", Agent: "w", Wanted: &imagev1.Ref{Id: "i"}}
	leaving := &instancev1.Instance{Id: "l", Agent: "l", TaskState: taskv1.State_STATE_RUNNING, TaskId: "t"}
	removed := &instancev1.Instance{Id: "r", Agent: "r", TaskState: taskv1.State_STATE_SUCCEEDED}
	for name, c := range map[string]struct {
		presence    serverv1.Presence
		instances   []*instancev1.Instance
		units, left []string
	}{
		"one leaves": {
			serverv1.Presence_PRESENCE_ONLINE, []*instancev1.Instance{leaving, removed},
			[]string{"r Gone "}, []string{"AGENT l"},
		},
		"one was wanted at the last moment": {
			serverv1.Presence_PRESENCE_ONLINE, []*instancev1.Instance{wanted}, []string{"w Unwanted "},
			[]string{"AGENT w"},
		},
		"all are gone":             {serverv1.Presence_PRESENCE_ONLINE, nil, nil, []string{"EMPTY "}},
		"all are gone, and it too": {serverv1.Presence_PRESENCE_OFFLINE, nil, nil, []string{"PRESENCE ", "EMPTY "}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &serverv1.Server{
				Id: "s", Life: serverv1.Life_LIFE_ALIVE, Presence: c.presence,
				Reinstall: &serverv1.Reinstall{IntentId: "intent"},
			}
			var units, left []string
			for _, u := range Units(s, slices.Values(c.instances), time.Now()) {
				units = append(units, line(u))
			}
			for _, d := range Left(s, slices.Values(c.instances), nil) {
				left = append(left, strings.TrimPrefix(d.Kind.String(), "DUTY_KIND_")+" "+d.Agent)
			}
			if diff := cmp.Diff(c.units, units) + cmp.Diff(c.left, left); diff != "" {
				t.Error(diff)
			}
			if due := Due(s, slices.Values(c.instances)); due != (len(c.units) > 0) {
				t.Errorf("due %v with units %v", due, c.units)
			}
		})
	}
}

func TestAFailedRemovalIsRequestedAgainForADay(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name     string
		failed   time.Duration // after it began
		at       time.Duration
		expected bool
	}{
		{"a moment ago", time.Minute, 2 * time.Minute, false},
		{"a while ago", time.Minute, time.Minute + RetryEvery, true},
		{"a day later", RetryFor - RetryEvery, RetryFor, false},
	} {
		i := &instancev1.Instance{
			Id: "i", Agent: "a", Generation: 4, State: instancev1.State_STATE_FAILED,
			Since: timestamppb.New(began.Add(c.failed)),
		}
		dying := &serverv1.Server{Life: serverv1.Life_LIFE_DYING, Since: timestamppb.New(began), IntentId: "in"}
		emptied := &serverv1.Server{
			Life:      serverv1.Life_LIFE_ALIVE,
			Reinstall: &serverv1.Reinstall{IntentId: "in", Since: timestamppb.New(began)},
		}
		for _, s := range []*serverv1.Server{dying, emptied, {Life: serverv1.Life_LIFE_ALIVE}} {
			units := Units(s, slices.Values([]*instancev1.Instance{i}), began.Add(c.at))
			leaves := s.Life == serverv1.Life_LIFE_DYING || s.Reinstall != nil
			if (len(units) == 1) != (c.expected && leaves) {
				t.Errorf("%s, of %v: %v", c.name, s, units)
			} else if len(units) == 1 && units[0][0].Body.(*instancev1.Unwanted).Generation != 5 {
				t.Errorf("%s: %v", c.name, units)
			}
			if due := Due(s, slices.Values([]*instancev1.Instance{i})); due != leaves {
				t.Errorf("%s: due %v, want %v", c.name, due, leaves)
			}
		}
	}
}

// Every duty at the end of a server has an owner who does it. A duty that goes, whose number is reserved then, keeps
// its row in the table, which names who does now what it did.
func TestEveryDutyHasAnOwnerAlsoOneThatWent(t *testing.T) {
	page, err := os.ReadFile("../../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{ledger.Registry, ledger.Dispatcher, "executor", "operator"}
	owners := map[protoreflect.EnumNumber]string{}
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([A-Z_]+)` \\| ([a-z-]+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || !slices.Contains(known, m[3]) {
			t.Errorf("duty %s has the owner %q, want one of %s", m[2], m[3], strings.Join(known, ", "))
		}
		owners[protoreflect.EnumNumber(n)] = m[2]
	}
	d := serverv1.DutyKind(0).Descriptor()
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		name := strings.TrimPrefix(string(v.Name()), "DUTY_KIND_")
		if v.Number() != 0 && owners[v.Number()] != name {
			t.Errorf("docs/servers.md has no row for duty %d, %s, with its owner", v.Number(), name)
		}
	}
	for i := range d.ReservedRanges().Len() {
		for gone := d.ReservedRanges().Get(i); gone[0] <= gone[1]; gone[0]++ {
			if owners[gone[0]] == "" {
				t.Errorf("duty %d went, and docs/servers.md does not name who does now what it did", gone[0])
			}
		}
	}
}
