package registry

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// want replaces the versions that are wanted of the agent vm.
func (s *site) want(wanted map[string]string) *registryv1.ChangeAgentRequest {
	all := must[*registryv1.ListAgentsResponse](s, "ListAgents", &registryv1.ListAgentsRequest{})
	next := proto.CloneOf(all.Agents[0])
	next.Wanted = wanted
	return &registryv1.ChangeAgentRequest{Agent: next}
}

func TestACheckComparesTheVersionsOfExternalInstancesThatAreWanted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment",
		&registryv1.CreateEnvironmentRequest{Environment: &environmentv1.Environment{Name: "prod"}})
	id := s.server("web-1")
	must[*registryv1.ChangeServerResponse](s, "ChangeServer",
		&registryv1.ChangeServerRequest{Server: id, Environment: proto.String("prod")})
	there := good("there")
	there.Server = id
	s.reportVMs(nil, good("apart"), there, good("own"))
	differ := func() (out []string) {
		t.Helper()
		r := must[*registryv1.CheckFleetResponse](s, "CheckFleet", &registryv1.CheckFleetRequest{Agent: "vm"})
		for _, d := range r.Differences {
			if d.Cause != code.WrongVersion || d.Observed != "1" {
				t.Errorf("%v", d)
			}
			out = append(out, d.Wanted+" "+d.Reason)
		}
		return out
	}
	if got := differ(); len(got) != 0 {
		t.Errorf("nothing is wanted, and these differ: %q", got)
	}
	must[*registryv1.ChangeAgentResponse](s, "ChangeAgent",
		s.want(map[string]string{"all": "2", "env=prod": "3", "own": "1"}))
	want := []string{"3 there: it has version 1", "2 apart: it has version 1"}
	if got := differ(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q differ; want %q", got, want)
	}
	for _, row := range must[*registryv1.ListExternalsResponse](s, "ListExternals",
		&registryv1.ListExternalsRequest{}).Externals {
		want := map[string]string{"apart": "2", "there": "3", "own": "1"}
		if name := row.External.Found.Name; row.Wanted != want[name] {
			t.Errorf("%s is listed with %q as wanted", name, row.Wanted)
		}
	}
	upgraded := proto.CloneOf(there)
	upgraded.Version = "3"
	s.reportVMs(nil, upgraded)
	if got := differ(); len(got) != 1 {
		t.Errorf("after the upgrade %q differ", got)
	}
}
