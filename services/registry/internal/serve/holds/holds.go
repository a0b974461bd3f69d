// Package holds answers requests about holds, which keep agents as they are.
package holds

import (
	"cmp"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	holdnoun "github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/page"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

// The limits of holds.
const (
	mostHolds   = 500 // at a time; each list and plan looks at all of them
	endedAtOnce = 100 // holds whose time passed, which go with the next hold that is set
)

// holds keeps holds.
type holds struct{ records *records.Records }

// Noun returns how holds are kept.
func Noun(r *records.Records) table.Kept {
	a := holds{r}
	return &table.Noun[*holdv1.Hold]{
		Name: ledger.Hold, Show: "garrison hold list", OfAgent: true, OnServers: true,
		Get: r.View.Hold, Unknown: a.unknown, Check: a.check, Key: a.key, Put: a.put,
		Ended: a.ended, End: &holdv1.Unset{}, Rows: a.rows,
		Row: func(h *holdv1.Hold) *holdv1.Hold { return hold.Row(r.View, h) },
	}
}

// never is the end of a request that removes the end of a hold.
var never = &timestamppb.Timestamp{}

// check refuses an end that no hold may have.
func (a holds) check(next *holdv1.Hold) error {
	if proto.Equal(next.Until, never) {
		return nil
	}
	if next.Until != nil && (!next.Until.IsValid() || !next.Until.AsTime().After(a.records.Now())) {
		about := "--all"
		if next.Agent != "" {
			about = next.Agent + " --on SELECTOR"
		}
		return request.Invalid(code.Invalid, "the hold would end at %s, which is not in the future",
			next.Until.AsTime().UTC().Format(time.RFC3339)).
			Try("garrison hold " + about + " --until 24h -m WHY")
	}
	if last := a.records.Now().Add(holdnoun.LongestPause); next.Agent == "" && next.Until.AsTime().After(last) {
		return request.Invalid(code.Invalid, "the site would be paused until %s; a pause lasts for %d days at most",
			next.Until.AsTime().UTC().Format(time.RFC3339), holdnoun.LongestPause/(24*time.Hour)).
			Try("garrison hold --all --until 8h -m WHY")
	}
	return nil
}

// key names the servers of a hold by id, and returns its id. It must run inside Read.
func (a holds) key(next *holdv1.Hold) (string, error) {
	agent, ok := a.records.View.Agent(next.Agent)
	switch {
	case next.Agent == "" && !proto.Equal(next.On, holdnoun.Site()):
		return "", request.Invalid(code.Invalid, "a hold of every agent pauses the site, and is about all servers").
			Try("garrison hold --all --until 8h -m WHY")
	case next.Agent == "":
		return holdnoun.ID("", next.On), nil
	case !ok:
		return "", request.NotFound(intent.UnknownAgent(a.records.View, next.Agent))
	case agent.Kind == agentv1.Kind_KIND_EXTERNAL:
		return "", request.Invalid(code.UnsupportedKind,
			"agent %q is of kind external: Garrison changes nothing there", next.Agent)
	}
	on, refusal := hold.Resolved(a.records.View, next.On)
	if refusal != nil {
		return "", request.NotFound(refusal)
	}
	next.On = on
	return holdnoun.ID(next.Agent, on), nil
}

// put drafts the fact that sets a hold, and the ends of others whose time passed; none when it is as requested already.
// It must run inside Read.
func (a holds) put(p table.Put[*holdv1.Hold]) ([]ledger.Draft, error) {
	r, next, reason := a.records, p.Next, p.Caller.Note
	if holdnoun.InEffect(p.Have, r.Now()) {
		reason = cmp.Or(reason, p.Have.Reason)
		if next.Until == nil { // as the reason, an end stays until another is given
			next.Until = p.Have.Until
		}
	}
	if proto.Equal(next.Until, never) {
		next.Until = nil
	}
	if next.Agent == "" && (next.Until == nil || reason == "") {
		return nil, request.Invalid(code.Invalid, "a pause of the site needs an end and a reason").
			Try("garrison hold --all --until 8h -m WHY")
	}
	if p.Have != nil && p.Have.Reason == reason && proto.Equal(p.Have.Until, next.Until) {
		return nil, nil
	}
	body := &holdv1.Hold{Agent: next.Agent, On: next.On, Until: next.Until}
	drafts := append(a.passed(p.Key), r.ByCaller(p.Caller, ledger.Hold, p.Key, body))
	if n := r.View.HoldCount() - (len(drafts) - 1); p.Have == nil && next.Agent != "" && n >= mostHolds {
		return nil, fault.Refusef(fault.Conflict, code.TooMany, "there are %d holds; %d are the most", n,
			mostHolds).Try("garrison hold list; garrison unhold AGENT --on SELECTOR")
	}
	return drafts, nil
}

// passed drafts the ends of holds, other than one, whose time passed. It must run inside Read.
func (a holds) passed(but string) []ledger.Draft {
	var out []ledger.Draft
	for id, h := range a.records.View.Holds("") {
		if id != but && !holdnoun.InEffect(h, a.records.Now()) && len(out) < endedAtOnce {
			f := a.records.Own(ledger.Hold, id, &holdv1.Unset{Passed: true}, "")
			out = append(out, a.records.Guard(f))
		}
	}
	return out
}

// ended returns the holds that a request ends. It must run inside Read.
func (a holds) ended(_ bus.Caller, q *registryv1.DeleteRecordRequest) ([]*holdv1.Hold, error) {
	v := a.records.View
	if (q.Key == "") == (q.Agent == "") || q.Key != "" && q.On != nil {
		return nil, request.Invalid(code.Malformed, "name a hold by its id, or an agent and servers").
			Try("garrison unhold AGENT --on SELECTOR")
	}
	if q.Key != "" {
		h, refusal := hold.Named(v, q.Key)
		if refusal != nil {
			return nil, request.NotFound(refusal)
		}
		return []*holdv1.Hold{h}, nil
	}
	ended, refusal := hold.Ended(v, q.Agent, q.On, a.records.Now())
	switch {
	case refusal == nil:
		return ended, nil
	case refusal.Code == code.HoldIsWider:
		return nil, fault.Refuse(fault.Conflict, refusal)
	}
	return nil, request.NotFound(refusal)
}

func (a holds) unknown(id string) error {
	_, refusal := hold.Named(a.records.View, id)
	return request.NotFound(refusal)
}

// rows returns the holds that are in effect and that a request lists. It must run inside Read.
func (a holds) rows(after string, q *registryv1.ListRecordsRequest) (iter.Seq2[string, *holdv1.Hold], error) {
	v, at := a.records.View, a.records.Now()
	if _, ok := v.Agent(q.Agent); !ok && q.Agent != "" {
		return nil, request.NotFound(intent.UnknownAgent(v, q.Agent))
	}
	among, refusal := selector.Matcher(v, q.On)
	if refusal != nil {
		return nil, request.NotFound(refusal)
	}
	matching := request.Only(v.Holds(after), func(h *holdv1.Hold) bool {
		return holdnoun.InEffect(h, at) && (q.Agent == "" || h.Agent == q.Agent || h.Agent == "") &&
			(q.On == nil || a.aboutOne(h, among))
	})
	return page.Map(matching, func(_ string, h *holdv1.Hold) *holdv1.Hold { return hold.Row(v, h) }), nil
}

// aboutOne reports whether a hold is about a living server that matches. It must run inside Read.
func (a holds) aboutOne(h *holdv1.Hold, match func(*serverv1.Server) bool) bool {
	for _, s := range hold.Servers(a.records.View, h.On) {
		if match(s) {
			return true
		}
	}
	return false
}
