package instances

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// site has an agent vm of kind external, which alice reports within a minute.
type site struct {
	*recordstest.World
	api *Externals
}

func (s *site) instances() *API {
	return NewAPI(s.Records, beats.New(s.Records, nil, time.Second, nil, nil, zerolog.Nop()), s.api)
}

func start(t *testing.T) *site {
	t.Helper()
	s := &site{World: recordstest.New(t)}
	s.api = NewExternals(s.Records, zerolog.Nop())
	s.Fact(ledger.Agent, "vm", &agentv1.Created{Agent: &agentv1.Agent{
		Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "alice", ReportWithin: durationpb.New(time.Minute),
	}})
	return s
}

// report reports instances, and returns how many changed, are confirmed and are gone.
func (s *site) report(complete *registryv1.Range, found ...*externalv1.Found) string {
	s.T.Helper()
	r := recordstest.Call(s.World, s.api.Report, &registryv1.ReportExternalRequest{
		Agent: "vm", Found: found, Complete: complete,
	})
	return fmt.Sprint(r.Changed, r.Confirmed, r.Gone)
}

// listed returns the names that a list shows.
func (s *site) listed(q *registryv1.ListInstancesRequest) (names []string) {
	q.WithExternal = true
	for _, r := range recordstest.Call(s.World, s.instances().List, q).Instances {
		names = append(names, r.External.External.Found.Name)
	}
	return names
}

func good(name string) *externalv1.Found {
	return &externalv1.Found{Name: name, Version: "1", Health: instancev1.Health_HEALTH_GOOD}
}

func TestAReportRecordsWhatDiffersAndEndsWhatACompleteOneLacks(t *testing.T) {
	t.Parallel()
	s := start(t)
	bad := good("b")
	bad.Health, bad.Reason = instancev1.Health_HEALTH_BAD, "it does not answer"
	for _, c := range []struct {
		name     string
		complete *registryv1.Range
		found    []*externalv1.Found
		want     string
	}{
		{"the first", nil, []*externalv1.Found{good("a"), good("b"), good("m"), good("z")}, "4 0 0"},
		{"one differs", nil, []*externalv1.Found{good("a"), bad}, "1 1 0"},
		{"complete from b to n", &registryv1.Range{From: "b", Before: "n"}, []*externalv1.Found{good("m")}, "0 1 1"},
		{"complete", &registryv1.Range{}, []*externalv1.Found{good("b")}, "1 0 3"}, // it came back
	} {
		if have := s.report(c.complete, c.found...); have != c.want {
			t.Errorf("%s: changed, confirmed and gone are %s; want %s", c.name, have, c.want)
		}
	}
	if have := s.Names(ledger.External, "vm.a"); len(have) != 2 {
		t.Errorf("an instance that never changed has the facts %v", have)
	}
	s.report(nil, bad)
	if have := s.listed(&registryv1.ListInstancesRequest{Health: instancev1.Health_HEALTH_BAD}); len(have) != 1 {
		t.Errorf("%v are bad; want b", have)
	}
}

func TestALongReportIsRecordedInBatchesAndAnInstanceThatNoReportListsIsStale(t *testing.T) {
	t.Parallel()
	s := start(t)
	for part := range 3 {
		var found []*externalv1.Found
		for i := range 500 {
			found = append(found, good(fmt.Sprintf("vm-%d-%03d", part, i)))
		}
		s.report(nil, found...)
	}
	if have := s.report(&registryv1.Range{}, good("new"), good("old")); have != "2 0 1500" {
		t.Errorf("more changes than a batch holds: %s", have)
	}
	s.At = s.At.Add(2 * time.Minute)
	s.report(nil, good("new"))
	if have := s.listed(&registryv1.ListInstancesRequest{Stale: true}); !slices.Equal(have, []string{"old"}) {
		t.Errorf("%v are stale; want old", have)
	}
}

func TestAnInstanceThatAlwaysDiffersIsRecordedTenTimesAndThenOnceAMinute(t *testing.T) {
	t.Parallel()
	s := start(t)
	mad := good("mad")
	have := ""
	for n := range budget.Burst + 2 {
		mad.Version = fmt.Sprint(n)
		have += s.report(nil, mad)[:1]
	}
	s.At = s.At.Add(budget.Every)
	for _, version := range []string{"a", "b"} {
		mad.Version = version
		have += s.report(nil, mad, good(version))[:1]
	}
	if want := "1111111111" + "00" + "21"; have != want {
		t.Errorf("recorded %s; want %s", have, want)
	}
}

func TestAReporterThatUsedUpItsBudgetIsLeftOutUntilMidnight(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Records.Limits.Reporter = 3 * 800
	var found []*externalv1.Found
	for n := range 10 {
		found = append(found, good(fmt.Sprint("vm-", n)))
	}
	q := &registryv1.ReportExternalRequest{Agent: "vm", Found: found}
	first := recordstest.Call(s.World, s.api.Report, q)
	if n := int(first.Changed); n != 3 || len(first.LeftOut) != 7 || first.LeftOut[0].Refusal.Code != code.UserBudget {
		t.Errorf("recorded %d, left out %v; want 3 and 7 with %s", n, first.LeftOut, code.UserBudget)
	}
	if again := recordstest.Call(s.World, s.api.Report, q); again.Changed != 0 {
		t.Errorf("%d more on the same day", again.Changed)
	}
	s.At = s.At.Add(24 * time.Hour)
	if next := recordstest.Call(s.World, s.api.Report, q); next.Changed != 3 {
		t.Errorf("%d on the next day; want 3", next.Changed)
	}
}

func TestAnInstanceThatCannotBeRecordedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	long, far := good("long"), good("far")
	long.Version, far.Server = string(make([]byte, 200)), "no-such-server"
	r := recordstest.Call(s.World, s.api.Report, &registryv1.ReportExternalRequest{
		Agent: "vm", Complete: &registryv1.Range{},
		Found: []*externalv1.Found{good("a"), good("a"), long, far, good("not a name"), {Name: "u"}},
	})
	have := map[string]string{}
	for _, l := range r.LeftOut {
		have[l.Name] = l.Refusal.Code
	}
	bad := code.Invalid
	want := map[string]string{"a": bad, "long": bad, "far": code.UnknownServer, "not a name": bad, "u": bad}
	if !maps.Equal(have, want) || r.Changed != 1 {
		t.Errorf("left out %v, changed %d; want %v and 1", have, r.Changed, want)
	}
	s.Fact(ledger.Agent, "vm", &agentv1.Changed{Agent: &agentv1.Agent{
		Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "lister",
	}})
	for agent, want := range map[string]string{"vm": code.NotReporter, "vn": code.UnknownAgent} {
		q := &registryv1.ReportExternalRequest{Agent: agent}
		if have := recordstest.Code(s.World, s.api.Report, q); have != want {
			t.Errorf("a report of %s by alice: %q; want %s", agent, have, want)
		}
	}
}

func TestWhatIsAvailableIsWhatAnUpgradeWouldBring(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Agent("web")
	s.Image("web", "1.0.0")
	s.Server("one", "")
	s.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.On("one")))
	s.Image("web", "1.1.0")
	before := len(s.Facts)
	api := s.instances()
	r := recordstest.Call(s.World, api.Available, &registryv1.ListAvailableRequest{}).Available
	if len(r) != 1 || r[0].ImageId != "web-1.1.0" || r[0].Behind != 1 || len(s.Facts) != before {
		t.Errorf("%v; want web 1.1.0 for one server, and no fact", r)
	}
}
