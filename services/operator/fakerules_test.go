package operator

import (
	"testing"

	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

// labelRules answers about label rules; each matches two servers.
func (f *fakes) labelRules(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListLabelRules", func(*registryv1.ListLabelRulesRequest) (
		*registryv1.ListLabelRulesResponse, error,
	) {
		return &registryv1.ListLabelRulesResponse{Rules: f.rules}, nil
	})
	handle(t, f, s, "SetLabelRule", func(q *registryv1.SetLabelRuleRequest) (*registryv1.SetLabelRuleResponse, error) {
		rule := &labelrulev1.LabelRule{Name: q.GetName(), When: q.GetWhen(), Labels: q.GetLabels(), Revision: 7}
		if !q.GetDryRun() {
			f.rules = []*labelrulev1.LabelRule{rule}
		}
		return &registryv1.SetLabelRuleResponse{Rule: rule, Matches: 2}, nil
	})
}

// deadServers returns the dead servers that a request lists. gone-3 is of the label rack=c alone.
func deadServers(q *registryv1.ListServersRequest) *registryv1.ListServersResponse {
	out := &registryv1.ListServersResponse{}
	for _, s := range leaving() {
		only := q.GetOn().GetLabels()["rack"]
		if s.GetLife() == serverv1.Life_LIFE_DEAD && (only == "" || only == "c" && s.GetName() == "gone-3") &&
			(!q.GetLeaked() || s.GetName() != "gone-2") {
			out.Servers = append(out.Servers, s)
		}
	}
	return out
}
