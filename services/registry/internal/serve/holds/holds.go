// Package holds answers requests about holds, which keep agents as they are.
package holds

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
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	holdnoun "github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/page"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// The limits of holds.
const (
	mostHolds   = 500 // at a time; each list and plan looks at all of them
	endedAtOnce = 100 // holds whose time passed, which go with the next hold that is set
)

// API answers requests about holds.
type API struct {
	records *records.Records
	log     zerolog.Logger
}

// NewAPI returns what answers requests about holds.
func NewAPI(r *records.Records, log zerolog.Logger) *API {
	return &API{records: r, log: log}
}

// Set sets a hold. It is safe to run twice: a hold that is as requested already writes nothing.
func (a *API) Set(
	ctx context.Context, c bus.Caller, q *registryv1.SetHoldRequest,
) (*registryv1.SetHoldResponse, error) {
	r := a.records
	if err := a.check(q); err != nil {
		return nil, err
	}
	id := ""
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		on, err := a.servers(q)
		if err != nil {
			return nil, err
		}
		id = holdnoun.ID(q.Agent, on)
		have, ok := r.View.Hold(id)
		body := &holdv1.Hold{Agent: q.Agent, On: on, Until: q.Until, Reason: q.Reason}
		if holdnoun.InEffect(have, r.Now()) {
			body.Reason = cmp.Or(q.Reason, have.Reason)
		}
		if q.Agent == "" && (body.Until == nil || body.Reason == "") {
			return nil, request.Invalid(code.BadHold, "a pause of the site needs an end and a reason").
				Try("garrison hold --all --until 8h -m WHY")
		}
		if ok && have.Reason == body.Reason && proto.Equal(have.Until, body.Until) {
			return nil, nil
		}
		drafts := append(a.passed(id), r.ByCaller(c, ledger.Hold, id, body))
		if n := r.View.HoldCount() - (len(drafts) - 1); !ok && q.Agent != "" && n >= mostHolds {
			return nil, fault.Refusef(fault.Conflict, code.TooManyHolds, "there are %d holds; %d are the most", n,
				mostHolds).Try("garrison hold list; garrison unhold AGENT --on SELECTOR")
		}
		return drafts, nil
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str(logs.Agent, q.Agent).Str(logs.Actor, c.Actor).Msg("agent held")
	resp := &registryv1.SetHoldResponse{}
	r.Follower.Read(func() {
		if have, ok := r.View.Hold(id); ok {
			resp.Hold = hold.Row(r.View, have)
		}
	})
	return resp, nil
}

// check refuses a reason or an end that no hold may have.
func (a *API) check(q *registryv1.SetHoldRequest) error {
	if !request.Printable(q.Reason, intent.MaxNote) {
		return request.Invalid(code.BadNote, "a reason must be printable and have %d bytes at most", intent.MaxNote)
	}
	if q.Until != nil && (!q.Until.IsValid() || !q.Until.AsTime().After(a.records.Now())) {
		return request.Invalid(code.BadHold, "the hold would end at %s, which is not in the future",
			q.Until.AsTime().UTC().Format(time.RFC3339)).
			Try("garrison hold " + cmp.Or(q.Agent, "--all") + " --until 24h")
	}
	return nil
}

// servers returns the servers that a hold is about, by id. It must run inside Read.
func (a *API) servers(q *registryv1.SetHoldRequest) (*intentv1.Selector, error) {
	agent, ok := a.records.View.Agent(q.Agent)
	switch {
	case q.Agent == "" && !proto.Equal(q.On, holdnoun.Site()):
		return nil, request.Invalid(code.BadHold, "a hold of every agent pauses the site, and is about all servers").
			Try("garrison hold --all --until 8h -m WHY, or garrison env freeze ENVIRONMENT --until 8h")
	case q.Agent == "":
		return holdnoun.Site(), nil
	case !ok:
		return nil, request.NotFound(intent.UnknownAgent(a.records.View, q.Agent))
	case agent.Kind == agentv1.Kind_KIND_EXTERNAL:
		return nil, request.Invalid(code.UnsupportedKind,
			"agent %q is of kind external: Garrison changes nothing there", q.Agent)
	}
	on, refusal := hold.Resolved(a.records.View, q.On)
	if refusal != nil {
		return nil, request.NotFound(refusal)
	}
	return on, nil
}

// passed drafts the ends of holds, other than one, whose time passed. It must run inside Read.
func (a *API) passed(but string) []ledger.Draft {
	var out []ledger.Draft
	for id, h := range a.records.View.Holds("") {
		if id != but && !holdnoun.InEffect(h, a.records.Now()) && len(out) < endedAtOnce {
			f := a.records.Own(ledger.Hold, id, &holdv1.Unset{Passed: true}, "")
			out = append(out, a.records.Guard(f))
		}
	}
	return out
}

// Unset ends holds.
func (a *API) Unset(
	ctx context.Context, c bus.Caller, q *registryv1.UnsetHoldsRequest,
) (*registryv1.UnsetHoldsResponse, error) {
	if (q.Id == "") == (q.Agent == "") || q.Id != "" && q.On != nil {
		return nil, request.Invalid(code.Malformed, "name a hold by its id, or an agent and servers").
			Try("garrison unhold AGENT --on SELECTOR, or garrison unhold --id HOLD")
	}
	resp := &registryv1.UnsetHoldsResponse{}
	r := a.records
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		if len(resp.Holds) > 0 && a.gone(resp.Holds) {
			return nil, nil // another replica recorded it
		}
		ended, err := a.ended(q)
		if err != nil {
			return nil, err
		}
		resp.Holds = nil
		var drafts []ledger.Draft
		for _, h := range ended {
			resp.Holds = append(resp.Holds, hold.Row(r.View, h))
			drafts = append(drafts, r.ByCaller(c, ledger.Hold, h.Id, &holdv1.Unset{}))
		}
		return drafts, nil
	})
	if err == nil {
		a.log.Info().Int("holds", len(resp.Holds)).Str(logs.Actor, c.Actor).Msg("holds ended")
	}
	return request.Answer(resp, err)
}

// gone reports whether none of the holds is there. It must run inside Read.
func (a *API) gone(holds []*holdv1.Hold) bool {
	for _, h := range holds {
		if _, ok := a.records.View.Hold(h.Id); ok {
			return false
		}
	}
	return true
}

// ended returns the holds that a request ends. It must run inside Read.
func (a *API) ended(q *registryv1.UnsetHoldsRequest) ([]*holdv1.Hold, error) {
	v := a.records.View
	if q.Id != "" {
		h, refusal := hold.Named(v, q.Id)
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

// List returns holds, a page at a time.
func (a *API) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListHoldsRequest,
) (*registryv1.ListHoldsResponse, error) {
	r := a.records
	part, err := records.List(ctx, r, q.Page, func(after string) (iter.Seq2[string, *holdv1.Hold], error) {
		if _, ok := r.View.Agent(q.Agent); !ok && q.Agent != "" {
			return nil, request.NotFound(intent.UnknownAgent(r.View, q.Agent))
		}
		among, refusal := selector.Matcher(r.View, q.On)
		if refusal != nil {
			return nil, request.NotFound(refusal)
		}
		at := r.Now()
		matching := request.Only(r.View.Holds(after), func(h *holdv1.Hold) bool {
			return holdnoun.InEffect(h, at) && (q.Agent == "" || h.Agent == q.Agent || h.Agent == "") &&
				(q.On == nil || a.aboutOne(h, among))
		})
		return page.Map(matching, func(_ string, h *holdv1.Hold) *holdv1.Hold { return hold.Row(r.View, h) }), nil
	})
	return request.Answer(&registryv1.ListHoldsResponse{
		Holds: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}

// aboutOne reports whether a hold is about a living server that matches. It must run inside Read.
func (a *API) aboutOne(h *holdv1.Hold, match func(*serverv1.Server) bool) bool {
	for _, s := range hold.Servers(a.records.View, h.On) {
		if match(s) {
			return true
		}
	}
	return false
}
