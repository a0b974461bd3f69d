package intents

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// longestWait is how long GetIntent waits for a decision at most.
const longestWait = 30 * time.Second

// API answers requests about intents.
type API struct {
	records *records.Records
	lookup  *Lookup
}

// NewAPI returns what answers requests about intents.
func NewAPI(r *records.Records, l *Lookup) *API {
	return &API{records: r, lookup: l}
}

// Get returns an intent's record, by its id or by a prefix that no other kept intent has. It waits for the decision as
// long as the request says.
func (a *API) Get(
	ctx context.Context, _ bus.Caller, q *registryv1.GetIntentRequest,
) (*registryv1.GetIntentResponse, error) {
	if !ident.IsUUID(q.IntentId) {
		found, err := a.prefixed(q.IntentId)
		return &registryv1.GetIntentResponse{Intent: found}, err
	}
	wait := q.GetWait().AsDuration()
	if wait < 0 || wait > longestWait {
		return nil, request.Invalid(code.Invalid, "a wait of %v; want 0 to %v", wait, longestWait)
	}
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for first := true; ; first = false {
		changed := a.records.Follower.Changed() // taken before the read, so that no change is missed
		if found := a.lookup.Recent(q.IntentId); found != nil {
			return &registryv1.GetIntentResponse{Intent: found}, nil
		}
		if first { // an old one is only in the ledger; once is enough, because a new one comes through the view
			found, err := a.lookup.held(ctx, q.IntentId, a.lookup.anywhere)
			if err == nil {
				return &registryv1.GetIntentResponse{Intent: found}, nil
			}
			if !fault.Is(err, fault.NotFound) {
				return nil, err
			}
		}
		select {
		case <-changed:
		case <-until.Done():
			return a.last(ctx, q.IntentId)
		}
	}
}

// shortest is the least that is looked up of an id: what tables show, as of ten thousand ids a few have any four
// characters. mostMatches is how many of several matches a refusal names.
const shortest, mostMatches = 8, 5

// prefixed returns the only intent in the view whose id starts with prefix.
func (a *API) prefixed(prefix string) (found *intentv1.Record, err error) {
	if len(prefix) < shortest {
		return nil, fault.Refuse(fault.Invalid, &apiv1.Refusal{
			Code: code.Malformed, Try: "garrison intent list",
			Message: fmt.Sprintf("%q is too short for an intent: it is named by its id, or by the first %d characters "+
				"of it at least", prefix, shortest),
		})
	}
	var ids []string
	a.records.Follower.Read(func() {
		for _, r := range a.records.View.Intents(view.IntentFilter{}) {
			if strings.HasPrefix(r.Id, prefix) {
				found, ids = r, append(ids, r.Id)
			}
		}
		found = proto.CloneOf(found)
	})
	switch n := len(ids); {
	case n == 0:
		return nil, fault.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: code.NotFound, Message: fmt.Sprintf("no intent that is kept starts with %.40q", prefix),
			Try: "garrison intent list",
		})
	case n > 1:
		more := ""
		if n > mostMatches {
			more, ids = fmt.Sprintf(" and %d more", n-mostMatches), ids[:mostMatches]
		}
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: code.Ambiguous, Try: "a longer prefix",
			Message: fmt.Sprintf("%q matches several intents: %s%s", prefix, strings.Join(ids, ", "), more),
		})
	}
	return found, nil
}

// last looks for an intent once more, where none that was recorded is missing, before it is called unknown.
func (a *API) last(ctx context.Context, id string) (*registryv1.GetIntentResponse, error) {
	waiting, unsure := a.lookup.waiting(ctx) // asked before the look, so that no decision falls between them
	found, err := a.lookup.Past(ctx, id)
	if fault.Is(err, fault.NotFound) && unsure == nil && waiting == 0 {
		return nil, neverStored(id)
	}
	if fault.Is(err, fault.NotFound) {
		return nil, unknownIntent(id)
	}
	if err != nil {
		return nil, err
	}
	return &registryv1.GetIntentResponse{Intent: found}, nil
}

// List lists the intents in the view, the one with the newest fact first.
func (a *API) List(
	_ context.Context, _ bus.Caller, q *registryv1.ListIntentsRequest,
) (*registryv1.ListIntentsResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	f := view.IntentFilter{Actor: q.Actor, State: q.State, Is: listed(q)}
	if q.Since != nil {
		f.Since = q.Since.AsTime()
	}
	if c := q.Page.GetCursor(); c != "" {
		if f.Before, err = strconv.ParseUint(c, 10, 64); err != nil || f.Before == 0 {
			return nil, request.Invalid(code.Invalid, "cursor %q is not one that a list returned", c)
		}
	}
	resp := &registryv1.ListIntentsResponse{}
	a.records.Follower.Read(func() {
		part := page.Take(page.Map(a.records.View.Intents(f), intentRow), limit)
		resp.Intents, resp.NextCursor, resp.LeftOut = part.Rows, part.Next, part.LeftOut
		resp.Kept = a.records.View.KeptIntents()
	})
	return resp, nil
}

// intentRow returns a copy of an intent without its servers.
func intentRow(_ string, i *intentv1.Record) *intentv1.Record {
	row := shallow.Copy(i)
	row.ServerIds = nil
	return row
}

// Withdraw records that an accepted intent is withdrawn. Everything else follows from that fact: the
// dispatcher cancels its queued tasks, and for each cancelled task the registry makes the instance
// wanted as before. So the dispatcher, which assigns tasks, decides which changes had begun, and the
// order of the ledger settles it. A second request writes nothing.
func (a *API) Withdraw(
	ctx context.Context, c bus.Caller, q *registryv1.WithdrawIntentRequest,
) (*registryv1.WithdrawIntentResponse, error) {
	if err := ident.Check("intent id", q.IntentId); err != nil {
		return nil, err
	}
	if len(q.Reason) > request.MaxReason || !utf8.ValidString(q.Reason) {
		return nil, request.Invalid(code.Invalid, "a reason is text of at most %d bytes", request.MaxReason)
	}
	var record *intentv1.Record
	err := a.records.Decider.Retry(ctx, func(ctx context.Context) (err error) {
		record, err = a.withdrawOnce(ctx, c, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.WithdrawIntentResponse{Intent: record}, nil
}

// withdrawOnce reads the intent from the ledger and records its withdrawal on that reading. It does
// not use the view, which keeps recent intents only.
func (a *API) withdrawOnce(
	ctx context.Context, c bus.Caller, q *registryv1.WithdrawIntentRequest,
) (*intentv1.Record, error) {
	d, err := a.lookup.decision(ctx, q.IntentId)
	if fault.Is(err, fault.NotFound) {
		return nil, unknownIntent(q.IntentId)
	}
	if err != nil {
		return nil, err
	}
	if d.record.State == intentv1.State_STATE_WITHDRAWN {
		return d.record, a.records.Follower.Wait(ctx, d.sequence)
	}
	if refusal := withdrawable(d.record); refusal != nil {
		return nil, fault.Refuse(fault.Conflict, refusal)
	}
	withdrawn := &intentv1.Withdrawn{Reason: q.Reason}
	f := a.records.Decider.Fact(decide.By(c), ledger.Intent, q.IntentId, withdrawn)
	if _, err := a.records.Decider.Append(ctx, ledger.OnKey(f, d.sequence)); err != nil {
		return nil, err
	}
	return a.lookup.Past(ctx, q.IntentId)
}

// withdrawable refuses an intent that left nothing to withdraw.
func withdrawable(r *intentv1.Record) *apiv1.Refusal {
	show := "garrison intent show " + r.Id
	switch {
	case r.State != intentv1.State_STATE_ACCEPTED:
		return &apiv1.Refusal{
			Code: code.NotWithdrawable, Message: "intent " + r.Id + " was refused and changes nothing", Try: show,
		}
	case r.Intent.GetDryRun() || r.Changed == 0:
		return &apiv1.Refusal{Code: code.NotWithdrawable, Message: "intent " + r.Id + " changes nothing", Try: show}
	case r.Intent.GetDecommission() != nil:
		return &apiv1.Refusal{
			Code:    code.NotWithdrawable,
			Message: "intent " + r.Id + " decommissions a server, which began when it was accepted", Try: show,
		}
	case r.Intent.GetReinstall() != nil:
		return &apiv1.Refusal{
			Code:    code.NotWithdrawable,
			Message: "intent " + r.Id + " reinstalls a server, which began when it was accepted", Try: show,
		}
	}
	return nil
}

// neverStored refuses an intent that is not decided while none waits for a decision.
func neverStored(id string) error {
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{
		Code: code.NotFound, Try: "the command that published it again",
		Message: fmt.Sprintf("intent %s is not stored and changed nothing: it was not decided, and no intent waits "+
			"for a decision", id),
	})
}

func unknownIntent(id string) error {
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{
		Code: code.NotFound, Message: fmt.Sprintf("intent %s is not decided, or is not stored", id),
		Try: "garrison intent list",
	})
}

// listed returns a filter for intents with the verb of a request, and without those that rollouts led to unless it asks
// for them.
func listed(q *registryv1.ListIntentsRequest) func(*intentv1.Intent) bool {
	return func(i *intentv1.Intent) bool {
		if i.GetSource().GetRolloutId() != "" && !q.Derived {
			return false
		}
		ask := i.ProtoReflect().WhichOneof(i.ProtoReflect().Descriptor().Oneofs().ByName("ask"))
		return q.Verb == "" || ask != nil && strings.EqualFold(string(ask.Name()), q.Verb)
	}
}
