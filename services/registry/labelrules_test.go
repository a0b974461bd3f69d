package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func TestALabelRuleKeepsItsOwnersAndItsRevision(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	ask := func(value string) *registryv1.SetLabelRuleRequest {
		return &registryv1.SetLabelRuleRequest{
			Name: "linux", Labels: map[string]string{"family": value},
			When: []*intentv1.Condition{{
				Field: "os", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{"linux"},
			}},
		}
	}
	set := func(q *registryv1.SetLabelRuleRequest) *registryv1.SetLabelRuleResponse {
		t.Helper()
		return must[*registryv1.SetLabelRuleResponse](s, "SetLabelRule", q)
	}
	dry := ask("gnu")
	dry.DryRun = true
	set(dry)
	if n := len(s.facts(ledger.LabelRule, "linux")); n != 0 {
		t.Fatalf("a dry run wrote %d facts", n)
	}
	first := ask("gnu")
	first.Owner = &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{"when": 1}}
	made := set(first).Rule
	if made.Revision == 0 || len(made.Owners) != 1 {
		t.Fatalf("%v", made)
	}
	set(first)
	if n := len(s.facts(ledger.LabelRule, "linux")); n != 1 {
		t.Errorf("the same request twice wrote %d facts", n)
	}
	byHand := set(ask("tux")).Rule
	if len(byHand.Owners) != 1 || byHand.Owners[0].Name != "site" {
		t.Errorf("set by hand, it lost its owner: %v", byHand)
	}
	late := ask("late")
	late.IfRevision = made.Revision
	if got := s.code("SetLabelRule", late); got != code.RevisionChanged {
		t.Errorf("based on an older revision: %q", got)
	}
	unset := &registryv1.UnsetLabelRuleRequest{Name: "linux", IfRevision: made.Revision}
	if got := s.code("UnsetLabelRule", unset); got != code.RevisionChanged {
		t.Errorf("unset, based on an older revision: %q", got)
	}
	unset.IfRevision = byHand.Revision
	must[*registryv1.UnsetLabelRuleResponse](s, "UnsetLabelRule", unset)
	nameless := ask("gnu")
	nameless.Owner = &ownerv1.FieldOwner{Name: "NO NAME", Fields: map[string]uint64{"when": 1}}
	if got := s.code("SetLabelRule", nameless); got != code.BadOwner {
		t.Errorf("an owner that is no name: %q", got)
	}
}

// An invited server has an environment and gets no label from a rule.
func TestALabelRuleCountsOnlyServersUnderManagement(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.join("one", "prod")
	must[*registryv1.InviteServerResponse](s, "InviteServer",
		&registryv1.InviteServerRequest{Name: "two", Environment: "prod"})
	resp := must[*registryv1.SetLabelRuleResponse](s, "SetLabelRule", &registryv1.SetLabelRuleRequest{
		Name: "production", Labels: map[string]string{"tier": "high"},
		When: []*intentv1.Condition{{
			Field: "env", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{"prod"},
		}},
	})
	if resp.Matches != 1 {
		t.Errorf("the rule matches %d servers; want the one that joined", resp.Matches)
	}
}
