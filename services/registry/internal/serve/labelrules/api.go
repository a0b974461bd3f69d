// Package labelrules derives labels of servers from their sysinfo by rules.
package labelrules

import (
	"cmp"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/labelrule"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

// rules keeps label rules.
type rules struct{ records *records.Records }

// Noun returns how label rules are kept.
func Noun(r *records.Records) table.Kept {
	a := rules{r}
	return &table.Noun[rule]{
		Name: ledger.LabelRule, Show: "garrison label-rule list",
		Get: r.View.LabelRule, Unknown: a.unknown, Check: check, Put: a.put, Ended: a.ended, End: &labelrulev1.Unset{},
		Rows: a.rows, Row: a.row,
	}
}

type rule = *labelrulev1.LabelRule

// check refuses a name and labels that no rule may have.
func check(next rule) error {
	if err := ident.CheckName("label rule", next.Name); err != nil {
		return request.BadName(err)
	}
	return request.CheckNewLabels(next.Labels)
}

// put drafts the fact that sets a rule; none when it is as requested already. It must run inside Read.
func (a rules) put(p table.Put[rule]) ([]ledger.Draft, error) {
	r := a.records
	if refusal := labelrule.Check(r.View, r.View.LabelRules(""), p.Next); refusal != nil {
		return nil, fault.Refuse(fault.Invalid, refusal)
	}
	body := &labelrulev1.LabelRule{When: p.Next.When, Labels: p.Next.Labels, Owners: p.Have.GetOwners()}
	for _, o := range p.Next.Owners {
		body.Owners = request.WithOwner(body.Owners, o)
	}
	set := &labelrulev1.LabelRule{When: p.Have.GetWhen(), Labels: p.Have.GetLabels(), Owners: p.Have.GetOwners()}
	if p.Have != nil && proto.Equal(body, set) {
		return nil, nil
	}
	if err := cmp.Or(request.CheckOwners(body.Owners), checkRevision(p.Key, p.Have, p.Next.Revision)); err != nil {
		return nil, err
	}
	return []ledger.Draft{r.ByCaller(p.Caller, ledger.LabelRule, p.Key, body)}, nil
}

// ended returns the rule that a request deletes. The labels that it gave go a little later. It must run inside Read.
func (a rules) ended(_ bus.Caller, q *registryv1.DeleteRecordRequest) ([]rule, error) {
	have, ok := a.records.View.LabelRule(q.Key)
	if !ok {
		return nil, a.unknown(q.Key)
	}
	return []rule{have}, checkRevision(q.Key, have, q.IfRevision)
}

func (a rules) unknown(name string) error {
	return fault.Refusef(fault.NotFound, code.NotFound, "no label rule is named %.80q", name).
		Near(nearest.Name(name, a.records.View.LabelRuleNames())).Try("garrison label-rule list")
}

// rows returns the rules, each with the number of its servers. It must run inside Read.
func (a rules) rows(after string, _ *registryv1.ListRecordsRequest) (iter.Seq2[string, rule], error) {
	servers := a.servers()
	return page.Map(a.records.View.LabelRules(after), func(_ string, r rule) rule {
		row := proto.CloneOf(r)
		row.Servers = servers[r.Name]
		return row
	}), nil
}

// row returns a rule with the numbers of its servers and of those that meet it. It must run inside Read.
func (a rules) row(r rule) rule {
	row := proto.CloneOf(r)
	row.Servers, row.Matches = a.servers()[r.Name], 0
	for s := range a.records.View.AllServers() {
		if server.Managed(s) && selector.MeetsAll(s, r.When) { // the others get no label
			row.Matches++
		}
	}
	return row
}

// servers returns how many servers have a label from each rule. It must run inside Read.
func (a rules) servers() map[string]uint32 {
	out := map[string]uint32{}
	for s := range a.records.View.AllServers() {
		seen := map[string]bool{}
		for _, l := range s.RuleLabels {
			if !seen[l.GetRule()] {
				seen[l.GetRule()] = true
				out[l.GetRule()]++
			}
		}
	}
	return out
}

// checkRevision refuses a request that is based on another revision than a label rule has; 0 is based on none.
func checkRevision(name string, have *labelrulev1.LabelRule, based uint64) error {
	if based == 0 || have.GetRevision() == based {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"label rule %q has revision %d, not %d: %s set it at %s", name, have.GetRevision(), based, have.GetSetBy(),
		have.GetSetAt().AsTime().UTC().Format(time.RFC3339)).Try("garrison label-rule list")
}
