package labelrules

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

// One server of prod is enrolled; one that is invited gets no label from a rule.
func TestALabelRuleKeepsItsOwnersAndItsRevision(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	api := table.New(w.Records, zerolog.Nop(), Noun(w.Records))
	w.Environment("prod")
	w.Server("one", "prod")
	w.Fact(ledger.Server, "two", &serverv1.Invited{Name: "two", Cell: "main", Environment: "prod"})
	ask := func(value, owner string, revision uint64) *registryv1.PutRecordRequest {
		q := &labelrulev1.LabelRule{
			Name: "live", Labels: map[string]string{"tier": value}, Revision: revision,
			When: []*intentv1.Condition{{
				Field: "env", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{"prod"},
			}},
		}
		if owner != "" {
			q.Owners = []*ownerv1.FieldOwner{{Name: owner, Fields: map[string]uint64{"when": 1}}}
		}
		return record.Set(q)
	}
	facts := func(want int) {
		t.Helper()
		if n := len(w.Names(ledger.LabelRule, "live")); n != want {
			t.Errorf("%d facts; want %d", n, want)
		}
	}
	put := func(q *registryv1.PutRecordRequest) *labelrulev1.LabelRule {
		return recordstest.Call(w, api.Put, q).Record.GetLabelRule()
	}
	dry, err := recordstest.Dry(w, api.Put, ask("high", "", 0))
	if n := dry.GetRecord().GetLabelRule().GetMatches(); n != 1 {
		t.Errorf("it matches %d servers; want the one that is enrolled: %v", n, err)
	}
	facts(0)
	other := ask("high", "", 0)
	rule := other.Record.GetLabelRule()
	rule.Name, rule.Labels = "other", map[string]string{"side": "b"}
	put(other)
	made := put(ask("high", "site", 0))
	put(ask("high", "site", 0))
	facts(1)
	byHand := put(ask("higher", "", 0))
	if len(byHand.Owners) != 1 || byHand.Owners[0].Name != "site" {
		t.Errorf("set by hand, it lost its owner: %v", byHand)
	}
	for want, q := range map[string]*registryv1.PutRecordRequest{
		code.RevisionChanged: ask("late", "", made.Revision), code.Invalid: ask("high", "NO NAME", 0),
	} {
		if have := recordstest.Code(w, api.Put, q); have != want {
			t.Errorf("%v: %q; want %s", q, have, want)
		}
	}
	rules := recordstest.Call(w, api.List, record.List(ledger.LabelRule)).Rules
	if len(rules) != 2 || rules[0].Revision != byHand.Revision || rules[0].Servers != 0 {
		t.Errorf("listed %v; want both rules, whose labels no server has yet", rules)
	}
	unset := record.Delete(ledger.LabelRule, "live", made.Revision)
	if have := recordstest.Code(w, api.Delete, unset); have != code.RevisionChanged {
		t.Errorf("unset, based on an older revision: %q", have)
	}
	unset.IfRevision = byHand.Revision
	recordstest.Call(w, api.Delete, unset)
}
