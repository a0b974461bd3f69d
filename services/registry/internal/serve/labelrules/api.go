// Package labelrules derives labels of servers from their sysinfo by rules.
package labelrules

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/labelrule"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// API answers requests about label rules.
type API struct {
	records *records.Records
	log     zerolog.Logger
}

// NewAPI returns what answers requests about label rules.
func NewAPI(r *records.Records, log zerolog.Logger) *API {
	return &API{records: r, log: log}
}

// Set sets a rule. It is safe to run twice: a rule that is as requested already writes nothing.
func (a *API) Set(
	ctx context.Context, c bus.Caller, q *registryv1.SetLabelRuleRequest,
) (*registryv1.SetLabelRuleResponse, error) {
	if err := ident.CheckName("label rule", q.Name); err != nil {
		return nil, request.BadName(err)
	}
	if err := request.CheckNewLabels(q.Labels); err != nil {
		return nil, err
	}
	r, next := a.records, &labelrulev1.LabelRule{Name: q.Name, When: q.When, Labels: q.Labels}
	resp := &registryv1.SetLabelRuleResponse{Rule: next}
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		if refusal := labelrule.Check(r.View, r.View.LabelRules(""), next); refusal != nil {
			return nil, fault.Refuse(fault.Invalid, refusal)
		}
		resp.Matches = 0
		for s := range r.View.AllServers() {
			if server.Managed(s) && selector.MeetsAll(s, q.When) { // the others get no label
				resp.Matches++
			}
		}
		have, ok := r.View.LabelRule(q.Name)
		body := proto.CloneOf(next)
		body.Name, body.Owners = "", request.WithOwner(have.GetOwners(), q.Owner)
		set := &labelrulev1.LabelRule{When: have.GetWhen(), Labels: have.GetLabels(), Owners: have.GetOwners()}
		same := ok && proto.Equal(body, set)
		if same || q.DryRun {
			return nil, nil
		}
		if err := cmp.Or(request.CheckOwners(body.Owners), checkRuleRevision(q.Name, have, q.IfRevision)); err != nil {
			return nil, err
		}
		return []ledger.Draft{r.ByCaller(c, ledger.LabelRule, q.Name, body)}, nil
	})
	if err != nil || q.DryRun {
		return request.Answer(resp, err)
	}
	a.log.Info().Str("rule", q.Name).Str(logs.Actor, c.Actor).Msg("label rule set")
	r.Follower.Read(func() {
		have, _ := r.View.LabelRule(q.Name)
		resp.Rule = a.row(have, a.servers())
	})
	return resp, nil
}

// Unset removes a rule. The labels that it gave go a little later.
func (a *API) Unset(
	ctx context.Context, c bus.Caller, q *registryv1.UnsetLabelRuleRequest,
) (*registryv1.UnsetLabelRuleResponse, error) {
	resp := &registryv1.UnsetLabelRuleResponse{}
	r, done := a.records, false
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		have, ok := r.View.LabelRule(q.Name)
		if !ok && done {
			return nil, nil // another replica recorded it
		} else if !ok {
			return nil, fault.Refusef(fault.NotFound, code.UnknownLabelRule, "no label rule is named %.80q", q.Name).
				Near(nearest.Name(q.Name, r.View.LabelRuleNames())).Try("garrison label-rule list")
		}
		if err := checkRuleRevision(q.Name, have, q.IfRevision); err != nil {
			return nil, err
		}
		done, resp.Servers = true, a.servers()[q.Name]
		return []ledger.Draft{r.ByCaller(c, ledger.LabelRule, q.Name, &labelrulev1.Unset{})}, nil
	})
	if err == nil {
		a.log.Info().Str("rule", q.Name).Str(logs.Actor, c.Actor).Msg("label rule unset")
	}
	return request.Answer(resp, err)
}

// List returns the label rules, a page at a time.
func (a *API) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListLabelRulesRequest,
) (*registryv1.ListLabelRulesResponse, error) {
	type rule = *labelrulev1.LabelRule
	part, err := records.List(ctx, a.records, q.Page, func(after string) (iter.Seq2[string, rule], error) {
		servers := a.servers()
		return page.Map(a.records.View.LabelRules(after), func(_ string, r rule) rule { return a.row(r, servers) }), nil
	})
	return request.Answer(&registryv1.ListLabelRulesResponse{
		Rules: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}

// row returns a copy of a rule with the number of its servers, or nil without a rule.
func (a *API) row(r *labelrulev1.LabelRule, servers map[string]uint32) *labelrulev1.LabelRule {
	if r == nil {
		return nil
	}
	row := proto.CloneOf(r)
	row.Servers = servers[r.Name]
	return row
}

// servers returns how many servers have a label from each rule. It must run inside Read.
func (a *API) servers() map[string]uint32 {
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

// checkRuleRevision refuses a request that is based on another revision than a label rule has; 0 is based on none.
func checkRuleRevision(name string, have *labelrulev1.LabelRule, based uint64) error {
	if based == 0 || have.GetRevision() == based {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"label rule %q has revision %d, not %d: %s set it at %s", name, have.GetRevision(), based, have.GetSetBy(),
		have.GetSetAt().AsTime().UTC().Format(time.RFC3339)).Try("garrison label-rule list, and then the change again")
}
