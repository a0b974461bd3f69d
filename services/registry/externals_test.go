package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// vms declares an agent of kind external that the caller of the site reports.
func (s *site) vms(within time.Duration) {
	s.t.Helper()
	must[*registryv1.CreateAgentResponse](s, "CreateAgent", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{
		Name: "vm", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "alice", ReportWithin: durationpb.New(within),
	}})
}

func (s *site) reportVMs(complete *registryv1.Range, found ...*externalv1.Found) *registryv1.ReportExternalResponse {
	s.t.Helper()
	return must[*registryv1.ReportExternalResponse](s, "ReportExternal",
		&registryv1.ReportExternalRequest{Agent: "vm", Found: found, Complete: complete})
}

// externals returns what is listed, by name.
func (s *site) externals(q *registryv1.ListExternalsRequest) (names []string, rows []*registryv1.ExternalRow) {
	s.t.Helper()
	rows = must[*registryv1.ListExternalsResponse](s, "ListExternals", q).Externals
	for _, r := range rows {
		names = append(names, r.External.Found.Name)
	}
	return names, rows
}

func good(name string) *externalv1.Found {
	return &externalv1.Found{Name: name, Version: "1", Health: instancev1.Health_HEALTH_GOOD}
}

func TestAReportRecordsDifferencesAndConfirmsTheRest(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	if r := s.reportVMs(nil, good("a"), good("b")); r.Changed != 2 || r.Confirmed != 0 {
		t.Errorf("the first report: %v", r)
	}
	bad := good("b")
	bad.Health, bad.Reason = instancev1.Health_HEALTH_BAD, "it does not answer"
	if r := s.reportVMs(nil, good("a"), bad); r.Changed != 1 || r.Confirmed != 1 || r.Gone != 0 {
		t.Errorf("the second report: %v", r)
	}
	if n := len(s.facts(ledger.External, "vm.a")); n != 1 {
		t.Errorf("%d facts about an instance that never changed", n)
	}
	names, rows := s.externals(&registryv1.ListExternalsRequest{Health: instancev1.Health_HEALTH_BAD})
	if !slices.Equal(names, []string{"b"}) {
		t.Fatalf("%v are bad; want b", names)
	}
	x := rows[0].External
	if x.Reporter != "alice" || x.Found.Reason == "" || x.ConfirmedAt == nil || rows[0].Stale {
		t.Errorf("listed as %v", rows[0])
	}
}

func TestOnlyACompleteReportEndsInstancesAndOnlyInItsRange(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	s.reportVMs(nil, good("a"), good("b"), good("m"), good("z"))
	if r := s.reportVMs(nil, good("a")); r.Gone != 0 {
		t.Errorf("a report that is not complete ended %d", r.Gone)
	}
	if r := s.reportVMs(&registryv1.Range{From: "b", Before: "n"}, good("m")); r.Gone != 1 {
		t.Errorf("the range from b ended %v; want b alone", r)
	}
	if names, _ := s.externals(nil); !slices.Equal(names, []string{"a", "m", "z"}) {
		t.Errorf("%v are left", names)
	}
	if r := s.reportVMs(&registryv1.Range{}); r.Gone != 3 {
		t.Errorf("an empty, complete list ended %d of 3", r.Gone)
	}
	if r := s.reportVMs(nil, good("b")); r.Changed != 1 {
		t.Errorf("one that was gone came back as %v", r)
	}
}

func TestALongListIsRecordedInBatches(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	for part := range 3 {
		var found []*externalv1.Found
		for i := range 500 {
			found = append(found, good(fmt.Sprintf("vm-%d-%03d", part, i)))
		}
		if r := s.reportVMs(nil, found...); r.Changed != 500 {
			t.Fatalf("part %d: %v", part, r)
		}
	}
	if r := s.reportVMs(&registryv1.Range{}, good("new")); r.Gone != 1500 || r.Changed != 1 {
		t.Errorf("more changes than a batch holds: %v; want 1,500 gone", r)
	}
}

func TestAnInstanceThatCannotBeRecordedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	long := good("long")
	long.Version = string(make([]byte, 200))
	far := good("far")
	far.Server = "no-such-server"
	r := s.reportVMs(&registryv1.Range{},
		good("a"), good("a"), long, far, good("not a name"), &externalv1.Found{Name: "u"})
	got := map[string]string{}
	for _, l := range r.LeftOut {
		got[l.Name] = l.Refusal.Code
	}
	want := map[string]string{
		"a": "BAD_REPORT", "long": "BAD_REPORT", "far": "UNKNOWN_SERVER", "not a name": "BAD_REPORT", "u": "BAD_REPORT",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || r.Changed != 1 {
		t.Errorf("left out %v, changed %d; want %v and 1", got, r.Changed, want)
	}
}

func TestOnlyItsReporterReportsAnAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	must[*registryv1.ChangeAgentResponse](s, "ChangeAgent", &registryv1.ChangeAgentRequest{Agent: &agentv1.Agent{
		Name: "vm", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "lister",
	}})
	for agent, want := range map[string]string{"vm": "NOT_REPORTER", "vn": "UNKNOWN_AGENT"} {
		_, err := ask[*registryv1.ReportExternalResponse](s, "ReportExternal",
			&registryv1.ReportExternalRequest{Agent: agent, Found: []*externalv1.Found{good("a")}})
		if fault.RefusalOf(err).GetCode() != want {
			t.Errorf("%s: %v; want %s", agent, err, want)
		}
	}
}

func TestAnInstanceThatNoReportListsBecomesStale(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Minute)
	s.reportVMs(nil, good("a"), good("b"))
	s.skew.Store(int64(2 * time.Minute))
	s.reportVMs(nil, good("a"))
	if names, _ := s.externals(&registryv1.ListExternalsRequest{Stale: true}); !slices.Equal(names, []string{"b"}) {
		t.Errorf("%v are stale; want b", names)
	}
}

func TestAnAgentWithExternalInstancesIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	s.reportVMs(nil, good("a"))
	_, err := ask[*registryv1.DeleteAgentResponse](s, "DeleteAgent", &registryv1.DeleteAgentRequest{Name: "vm"})
	if fault.RefusalOf(err).GetCode() != "IN_USE" {
		t.Errorf("deleted: %v", err)
	}
}
