package registry

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Of all operators that read one revision and change it, through two registries, exactly one wins; the others
// learn who.
func TestOperatorsNeverOverwriteEachOtherSilently(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	read := must[*registryv1.CreateApplicationResponse](s, "CreateApplication", // a list of the other may be behind
		&registryv1.CreateApplicationRequest{Application: &applicationv1.Application{Name: "net"}}).Application
	if read.Revision == 0 || read.ChangedBy == "" || read.ChangedAt != nil || len(read.Changed) > 0 {
		t.Fatalf("a new application is %v", read)
	}
	const operators = 8
	var wait sync.WaitGroup
	errs := make([]error, operators)
	for n := range operators {
		wait.Go(func() {
			next := proto.CloneOf(read)
			next.Metadata = map[string]string{"level": strings.Repeat("x", n+1)}
			_, errs[n] = ask[*registryv1.ChangeApplicationResponse](s, "ChangeApplication",
				&registryv1.ChangeApplicationRequest{Application: next})
		})
	}
	wait.Wait()
	won := 0
	for _, err := range errs {
		r := fault.RefusalOf(err)
		switch {
		case err == nil:
			won++
		case r.GetCode() != "REVISION_CHANGED" || !fault.Is(err, fault.Conflict) ||
			!strings.Contains(r.GetMessage(), " changed metadata.level at "):
			t.Errorf("a loser got %v", err)
		}
	}
	if facts := s.facts(ledger.Application, "net"); won != 1 || len(facts) != 2 {
		t.Errorf("%d won, %d facts", won, len(facts))
	}
}

func TestARecordChangesOnlyAtTheRevisionThatIsNamed(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	env := must[*registryv1.ListEnvironmentsResponse](s, "ListEnvironments",
		&registryv1.ListEnvironmentsRequest{}).Environments[0]
	next := &environmentv1.Environment{
		Name: env.Name, Channel: "release", Description: "of tests", Revision: env.Revision + 1,
	}
	change := &registryv1.ChangeEnvironmentRequest{Environment: next}
	if got := s.code("ChangeEnvironment", change); got != "REVISION_CHANGED" {
		t.Errorf("code %q", got)
	}
	next.Revision = env.Revision
	got := must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment", change).Environment
	if got.Revision <= env.Revision || got.ChangedAt == nil || got.Changed[len(got.Changed)-1] != "description" {
		t.Errorf("after the change: %v", got)
	}
	// A lost answer: the same change again holds already, though its revision has passed.
	must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment", change)
	s.agent("spare")
	one := must[*registryv1.ListAgentsResponse](s, "ListAgents", &registryv1.ListAgentsRequest{}).Agents
	for _, a := range one {
		if a.Name == "spare" {
			remove := &registryv1.DeleteAgentRequest{Name: "spare", IfRevision: a.Revision + 1}
			if got := s.code("DeleteAgent", remove); got != "REVISION_CHANGED" {
				t.Errorf("code %q", got)
			}
			must[*registryv1.ChangeAgentResponse](s, "ChangeAgent", &registryv1.ChangeAgentRequest{
				Agent: &agentv1.Agent{Name: "spare", Kind: a.Kind, Tier: 2},
			})
			remove.IfRevision = a.Revision
			if got := s.code("DeleteAgent", remove); got != "REVISION_CHANGED" {
				t.Errorf("a changed record: code %q", got)
			}
		}
	}
	for _, f := range s.facts(ledger.Environment, env.Name) {
		if c, ok := f.Body.(*environmentv1.Changed); ok && c.Environment.Revision != 0 {
			t.Error("a fact holds a revision")
		}
	}
}
