package environments

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

const (
	onNew = environmentv1.Reach_REACH_NEW
	onAll = environmentv1.Reach_REACH_ALL
)

// site has servers s0, s1 and so on in the environment prod, and the environment next.
type site struct {
	*recordstest.World
	api  *Defaults
	work *Work
}

func start(t *testing.T, servers int) *site {
	t.Helper()
	s := &site{World: recordstest.New(t)}
	s.work = NewWork(s.Records, zerolog.Nop())
	s.api = NewDefaults(s.Records, s.work)
	s.Hear = append(s.Hear, s.work.NoteFacts)
	s.Environment("prod")
	s.Environment("next")
	for n := range servers {
		s.Server(fmt.Sprint("s", n), "prod")
	}
	s.Agent("web")
	return s
}

func ask(reach environmentv1.Reach, change ...func(*registryv1.SetDefaultRequest)) *registryv1.SetDefaultRequest {
	q := &registryv1.SetDefaultRequest{Environment: "prod", Agent: "web", Reach: reach}
	for _, c := range change {
		c(q)
	}
	return q
}

func (s *site) set(q *registryv1.SetDefaultRequest) *environmentv1.Default {
	s.T.Helper()
	return recordstest.Call(s.World, s.api.Set, q).Default
}

// refused returns the code of a refused default, and what to do instead.
func (s *site) refused(q *registryv1.SetDefaultRequest) (code, try string) {
	_, err := s.api.Set(s.T.Context(), bus.Caller{Actor: "alice"}, q)
	return recordstest.CodeOf(err), fault.RefusalOf(err).GetTry()
}

func (s *site) planned(q *registryv1.PlanDefaultsRequest) string {
	return recordstest.Code(s.World, s.api.Plan, q)
}

func planOf(q *registryv1.SetDefaultRequest) *registryv1.PlanDefaultsRequest {
	return &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: q}}
}

// settle looks at every server that is due to be looked at.
func (s *site) settle() {
	for s.work.takeWaiting(); !s.work.Idle(); {
		if err := s.work.Look(s.T.Context(), s.work.queue.Take(0)); err != nil {
			s.T.Fatal(err)
		}
	}
}

// restart has another registry go on.
func (s *site) restart() {
	s.work = NewWork(s.Records, zerolog.Nop())
	s.api, s.Hear[0] = NewDefaults(s.Records, s.work), s.work.NoteFacts
	s.work.AddEverything()
	s.work.waitEverywhere()
}

// with returns on how many servers web is wanted.
func (s *site) with() int { return s.View.InstancesOn("web") }

func TestADefaultForAllTouchesWhatItsPlanShowedOrNothing(t *testing.T) {
	t.Parallel()
	s := start(t, 2)
	s.Image("web", "1.0.0")
	q := ask(onAll)
	p := recordstest.Call(s.World, s.api.Plan, planOf(q))
	if q.PlanSha256 = p.PlanSha256; p.Plans[0].Changed != 2 || p.Servers != 2 {
		t.Fatalf("the plan is %v; want web on both", p)
	}
	s.Server("late", "prod")
	if have, _ := s.refused(q); have != code.PlanStale {
		t.Errorf("with a third server: %q", have)
	}
	s.settle()
	q.PlanSha256 = recordstest.Call(s.World, s.api.Plan, planOf(q)).PlanSha256
	if n := s.with(); n > 0 {
		t.Errorf("a refused default installed on %d servers", n)
	}
	s.set(q)
	s.settle()
	before := len(s.Facts)
	q.PlanSha256 = nil
	if s.set(q); s.with() != 3 || len(s.Facts) != before {
		t.Errorf("web is on %d servers; the same default again wrote %d facts", s.with(), len(s.Facts)-before)
	}
}

// A default for new servers may be set in a frozen environment; one for those that are in it would change them.
func TestADefaultForManyServersOrInAFrozenEnvironmentIsRefused(t *testing.T) {
	t.Parallel()
	freeze := func(s *site) {
		until := timestamppb.New(s.At.Add(time.Hour))
		s.Fact(ledger.Environment, "prod", &environmentv1.Changed{
			Environment: &environmentv1.Environment{Freezes: []*environmentv1.Freeze{{Until: until}}},
		})
	}
	values := func(q *registryv1.SetDefaultRequest) { q.Metadata = map[string]string{"level": "debug"} }
	atOnce := func(q *registryv1.SetDefaultRequest) { q.AtOnce = true }
	const many, few = MostAtOnce + 1, MostAtOnce
	const waves = "garrison rollout start --install web --then-default prod --on env=prod "
	for name, c := range map[string]struct {
		servers   int
		q         *registryv1.SetDefaultRequest
		before    func(*site)
		code, try string
	}{
		"many":              {many, ask(onAll), nil, code.TooWide, waves},
		"many, new ones":    {many, ask(onNew), nil, "", ""},
		"many at once":      {many, ask(onAll, atOnce), nil, "", ""},
		"as many as may be": {few, ask(onAll), nil, "", ""},
		"with a value": {
			many, ask(onAll, values), nil, code.TooWide,
			"garrison env default prod web --reach new --set level=VALUE, and then " + waves,
		},
		"with the value that it has": {
			many, ask(onAll, values), func(s *site) { s.set(ask(onNew, values)) }, code.TooWide, waves,
		},
		"without the value that it has": {
			many, ask(onAll), func(s *site) { s.set(ask(onNew, values)) }, code.TooWide,
			"garrison env default prod web --reach new --unset level, ",
		},
		"frozen":           {1, ask(onAll), freeze, code.Closed, waves},
		"frozen, new ones": {1, ask(onNew), freeze, "", ""},
	} {
		s := start(t, c.servers)
		s.Image("web", "1.0.0")
		if c.before != nil {
			c.before(s)
		}
		if have := s.planned(planOf(c.q)); have != c.code {
			t.Errorf("%s: its plan: %q; want %q", name, have, c.code)
		}
		if have, try := s.refused(c.q); have != c.code || !strings.HasPrefix(try, c.try) {
			t.Errorf("%s: %q, %q; want %q, %q", name, have, try, c.code, c.try)
		}
	}
	s := start(t, many)
	if have, _ := s.refused(ask(onAll)); have != code.TooWide {
		t.Errorf("without an image, which would come to all at once: %q", have)
	}
}

// An image that is activated would otherwise reach all servers at once; so would an agent that an aborted rollout was
// to bring.
func TestADefaultThatBecomesDueOnManyServersTogetherIsHeld(t *testing.T) {
	t.Parallel()
	for servers, held := range map[int]bool{MostAtOnce: false, MostAtOnce + 1: true} {
		s := start(t, servers)
		s.set(ask(onNew))
		for n := range servers {
			s.Server(fmt.Sprint("new", n), "prod")
		}
		s.settle()
		s.Image("web", "1.0.0")
		if s.settle(); (s.with() == 0) != held || s.work.Waits() > 0 != held {
			t.Errorf("%d servers waited: %d have it, %d wait", servers, s.with(), s.work.Waits())
		}
		if !held {
			continue
		}
		s.restart() // which waited is not known then, and must not come by it
		if s.settle(); s.with() > 0 {
			t.Errorf("a restart brought it to %d servers", s.with())
		}
		rows := recordstest.Call(s.World, s.api.List, &registryv1.ListDefaultsRequest{Environment: "prod"}).Defaults
		if r := rows[0].Reasons; len(r) != 1 || r[0].Code != code.TooWide || int(r[0].Count) != servers ||
			!strings.Contains(r[0].First.Try, "garrison rollout start --install web") {
			t.Errorf("listed with the reasons %v", r)
		}
		s.Server("last", "prod")
		if s.settle(); s.with() != 1 {
			t.Errorf("%d servers have it; want the one that joined, which did not wait", s.with())
		}
		s.set(ask(onNew, func(q *registryv1.SetDefaultRequest) { q.AtOnce = true }))
		if s.settle(); s.with() != servers+1 {
			t.Errorf("%d servers have it at once", s.with())
		}
	}
}

func TestADefaultThatFilesDeclareKeepsItsOwnersAndItsReach(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	atOnce := func(q *registryv1.SetDefaultRequest) { q.AtOnce = true } // only a request of a person says so
	first := s.set(ask(onAll, atOnce))
	keep := func(q *registryv1.SetDefaultRequest) { q.KeepReach = true }
	for name, q := range map[string]*registryv1.SetDefaultRequest{
		"the same": ask(onAll, atOnce), "the same, by a file": ask(onAll, keep),
	} {
		if again := s.set(q); again.Revision != first.Revision || !again.AtOnce {
			t.Errorf("%s again is %v; want %v", name, again, first)
		}
	}
	q := ask(onAll, func(q *registryv1.SetDefaultRequest) {
		q.Owner, q.KeepReach = &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{".": 1}}, true
		q.IfRevision = first.Revision
	})
	claimed := s.set(q)
	if claimed.AllSince != first.AllSince || len(claimed.Owners) != 1 {
		t.Errorf("%v; want one owner, and the reach of %v", claimed, first)
	}
	if again := s.set(q); again.Revision != claimed.Revision {
		t.Error("the same request wrote a fact")
	}
	q.Metadata = map[string]string{"level": "info"}
	if have := s.planned(planOf(q)); have != code.RevisionChanged {
		t.Errorf("a plan based on an earlier revision: %q; want that the revision changed", have)
	}
	if have, _ := s.refused(q); have != code.RevisionChanged {
		t.Errorf("a change of an older revision: %q", have)
	}
	unset := &registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "web", IfRevision: first.Revision}
	if have := recordstest.Code(s.World, s.api.Unset, unset); have != code.RevisionChanged {
		t.Errorf("the end of an older revision: %q", have)
	}
	if by := s.set(ask(onNew)); len(by.Owners) != 1 || by.AtOnce {
		t.Errorf("a request without an owner leaves %v", by)
	}
}

func TestAWrongDefaultIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, 0)
	s.Fact(ledger.Agent, "web", &agentv1.Changed{Agent: &agentv1.Agent{
		Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Schema: `{"properties": {"level": {"enum": ["info"]}}}`,
	}})
	channel := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: "dev"}}
	type set = *registryv1.SetDefaultRequest
	for want, q := range map[string]set{
		code.Invalid:            ask(0),
		code.UnknownEnvironment: ask(onNew, func(q set) { q.Environment = "prodd" }),
		code.UnknownAgent:       ask(onNew, func(q set) { q.Agent = "wep" }),
		code.NoMatch:            ask(onNew, func(q set) { q.Image = recordstest.Version("9.9.9") }),
		code.UnknownChannel:     ask(onNew, func(q set) { q.Image = channel }),
		code.BadMetadata:        ask(onNew, func(q set) { q.Metadata = map[string]string{"a-b": "c"} }),
		code.SchemaMismatch:     ask(onNew, func(q set) { q.Metadata = map[string]string{"level": "loud"} }),
	} {
		if have, _ := s.refused(q); have != want || s.planned(planOf(q)) != want {
			t.Errorf("%v: %q; want %s", q, have, want)
		}
	}
	for want, q := range map[string]*registryv1.UnsetDefaultRequest{
		code.NotFound:           {Environment: "prod", Agent: "web"},
		code.UnknownEnvironment: {Environment: "prodd", Agent: "web"},
	} {
		if have := recordstest.Code(s.World, s.api.Unset, q); have != want {
			t.Errorf("unset %v: %q; want %s", q, have, want)
		}
	}
	for want, q := range map[string]*registryv1.ListDefaultsRequest{
		code.Malformed: {}, code.UnknownEnvironment: {Environment: "prodd"}, code.UnknownServer: {Server: "one"},
	} {
		if have := recordstest.Code(s.World, s.api.List, q); have != want {
			t.Errorf("list %v: %q; want %s", q, have, want)
		}
	}
	if have := s.planned(&registryv1.PlanDefaultsRequest{}); have != code.Malformed {
		t.Errorf("a plan of nothing: %q", have)
	}
}

// moving is a move of all servers of prod.
func moving(to string) *registryv1.MoveServersRequest {
	return &registryv1.MoveServersRequest{On: &intentv1.Selector{Environment: "prod"}, Environment: to}
}

func TestServersThatMoveGetTheDefaultsAndLoseNothing(t *testing.T) {
	t.Parallel()
	s := start(t, 1)
	s.Image("web", "1.0.0")
	s.set(ask(onNew, func(q *registryv1.SetDefaultRequest) { q.Environment = "next" }))
	q := moving("next")
	plan := &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Move{Move: q}}
	p := recordstest.Call(s.World, s.api.Plan, plan)
	if len(p.Targets) != 1 || p.Servers != 1 || p.Plans[0].Changed != 1 {
		t.Fatalf("the plan is %v; want web on one", p)
	}
	q.PlanSha256 = p.PlanSha256
	moved := recordstest.Call(s.World, s.api.Move, q).Moved
	if s.settle(); moved != 1 || s.with() != 1 {
		t.Errorf("moved %d, and %d have web; want one", moved, s.with())
	}
	q.On = recordstest.Everywhere()
	if have := recordstest.Code(s.World, s.api.Move, q); have != code.PlanStale {
		t.Errorf("the same plan again: %q", have)
	}
	recordstest.Call(s.World, s.api.Move, &registryv1.MoveServersRequest{On: q.On})
	if s.settle(); s.with() != 1 {
		t.Error("web went when the server left the environment")
	}
}

func TestAMoveByWhichDefaultsReachManyServersIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	byDefault := func(s *site) {
		s.set(ask(onNew, func(q *registryv1.SetDefaultRequest) {
			q.Environment, q.Image = "next", recordstest.Version("1.0.0")
		}))
	}
	byRollout := func(s *site) { // which ends with the default
		s.Fact(ledger.Rollout, "r", &rolloutv1.Planned{
			Strategy: &rolloutv1.Strategy{}, Waves: []uint32{1}, Part: 1, Parts: 1,
			Then: []*rolloutv1.Standing{{Change: &rolloutv1.Standing_Default{
				Default: &rolloutv1.StandingDefault{Environment: "next", Agent: "web"},
			}}},
		})
	}
	aborted := func(s *site) {
		byRollout(s)
		s.Fact(ledger.Rollout, "r", &rolloutv1.Aborted{})
	}
	for name, c := range map[string]struct {
		servers   int
		q         *registryv1.MoveServersRequest
		before    func(*site)
		code, try string
	}{
		"many":         {MostAtOnce + 1, moving("next"), byDefault, code.TooWide, "--install web@1.0.0 --on env=prod "},
		"few":          {MostAtOnce, moving("next"), byDefault, "", ""},
		"a rollout":    {MostAtOnce + 1, moving("next"), byRollout, code.TooWide, "start --install web --on env=prod "},
		"it is over":   {MostAtOnce + 1, moving("next"), aborted, "", ""},
		"to nowhere":   {1, moving("nextt"), nil, code.UnknownEnvironment, ""},
		"of no server": {0, moving("next"), nil, code.NoServers, ""},
		"of none":      {1, &registryv1.MoveServersRequest{Environment: "next"}, nil, code.EmptySelector, ""},
		"more than move at once": {topology.MaxBatch, moving(""), nil, code.TooMany,
			"garrison server set --on env=prod --on LABEL=VALUE --env none, part after part"},
	} {
		s := start(t, c.servers)
		if s.Image("web", "1.0.0"); c.before != nil {
			c.before(s)
		}
		_, err := s.api.Move(t.Context(), bus.Caller{Actor: "alice"}, proto.CloneOf(c.q))
		have, try := recordstest.CodeOf(err), fault.RefusalOf(err).GetTry()
		if have != c.code || c.try != "" && !strings.Contains(try, c.try) {
			t.Errorf("%s: %q, %q; want %q, %q", name, have, try, c.code, c.try)
		}
		if c.code == code.TooWide {
			c.q.AtOnce = true
			recordstest.Call(s.World, s.api.Move, c.q)
		}
	}
}
