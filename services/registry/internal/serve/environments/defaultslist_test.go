package environments

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

func TestTheDefaultsOfAnAgentAreListedOverAllEnvironments(t *testing.T) {
	t.Parallel()
	s := start(t, 2)
	s.Environment("test")
	s.Server("alone", "test")
	s.set(ask(onNew))
	s.set(ask(onNew, func(q *registryv1.SetDefaultRequest) { q.Environment = "test" }))
	r := recordstest.Call(s.World, s.api.List, &registryv1.ListDefaultsRequest{Agent: "web"})
	var have []string
	for _, row := range r.Defaults {
		have = append(have, row.Environment+" "+row.Agent)
	}
	if want := []string{"prod web", "test web"}; !slices.Equal(have, want) || r.Members != 3 {
		t.Errorf("listed are %q with %d servers, want %q with 3", have, r.Members, want)
	}
	if r := recordstest.Call(s.World, s.api.List, &registryv1.ListDefaultsRequest{Agent: "db"}); len(r.Defaults) > 0 {
		t.Errorf("an agent without defaults has %v", r.Defaults)
	}
	if have := recordstest.Code(s.World, s.api.List,
		&registryv1.ListDefaultsRequest{Environment: "prod", Server: "one"}); have != code.Malformed {
		t.Errorf("an environment and a server: %q", have)
	}
}
