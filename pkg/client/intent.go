package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// decisionWait is how long the registry waits for a decision within one call.
	decisionWait = 2 * time.Second
	// decisionRetry is the pause before the registry is asked again.
	decisionRetry = 50 * time.Millisecond
)

// NewID returns a new id for an intent.
func NewID() string { return ident.New() }

// Submit publishes an intent under a new id and waits for its decision. A refusal is an error, with the record beside
// it. Another error may leave the intent stored and its decision unknown; the record then has the intent's id only, and
// Decision asks again.
func (c *Client) Submit(ctx context.Context, intent *intentv1.Intent) (*intentv1.Record, error) {
	id := NewID()
	if err := c.Publish(ctx, id, intent); err != nil {
		return &intentv1.Record{Id: id}, err
	}
	r, err := c.Decision(ctx, id)
	if r == nil {
		r = &intentv1.Record{Id: id}
	}
	return r, err
}

// Publish stores an intent under an id. It repeats what was not answered, and may be called again with the same id: the
// intent is decided once. NotStored tells from its error whether the intent is certainly not stored.
func (c *Client) Publish(ctx context.Context, id string, intent *intentv1.Intent) error {
	verb, err := verbOf(intent)
	if err != nil {
		return err
	}
	if err := mayWrite(ctx, c, verb, intent); err != nil {
		return err
	}
	data, err := proto.Marshal(intent)
	if err != nil {
		return fault.New(fault.Invalid, "write intent: %w", err)
	}
	subject := topology.IntentSubject(verb, c.Actor(), id)
	open, err := c.insist(ctx, c.patience.within, func() error {
		return c.ask(ctx, c.timeout, subject, func(ctx context.Context) error {
			_, err := c.conn.PublishDurable(ctx, bus.Durable{Subject: subject, Data: data, Once: true})
			return err
		})
	})
	switch {
	case err == nil:
		return nil
	case open:
		return fmt.Errorf("publish intent %s: %w", id, openError{err})
	}
	return fmt.Errorf("publish intent %s: %w", id, err)
}

// openError is the error of a publish with a try that was not answered.
type openError struct{ error }

// Unwrap returns the error of the last try.
func (e openError) Unwrap() error { return e.error }

// NotStored reports whether an error of Publish says that the intent is not stored: no try reached the bus, or the bus
// refused it.
func NotStored(err error) bool {
	_, open := errors.AsType[openError](err)
	return err != nil && !open
}

// verbOf returns the verb of an intent's subject, which is the name of what it asks.
func verbOf(intent *intentv1.Intent) (string, error) {
	m := intent.ProtoReflect()
	ask := m.WhichOneof(m.Descriptor().Oneofs().ByName("ask"))
	if ask == nil {
		return "", fault.New(fault.Invalid, "the intent asks for nothing")
	}
	return string(ask.Name()), nil
}

// Decision waits until the registry has decided about an intent. An intent that was refused or withdrawn is an error,
// with its record beside it.
func (c *Client) Decision(ctx context.Context, id string) (*intentv1.Record, error) {
	q := &registryv1.GetIntentRequest{IntentId: id, Wait: durationpb.New(decisionWait)}
	for {
		r, err := Call[*registryv1.GetIntentResponse](ctx, c, q)
		if state := r.GetIntent().GetState(); err == nil && state != intentv1.State_STATE_UNSPECIFIED {
			return r.GetIntent(), refusal(r.GetIntent())
		}
		if ctx.Err() == nil && err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Unavailable) {
			return nil, err
		}
		if ended := pause(ctx, decisionRetry); ended != nil {
			return nil, fmt.Errorf("intent %s is stored and its decision is not known: %w", id, ended)
		}
	}
}

// refusal returns the error of an intent that does not hold.
func refusal(r *intentv1.Record) error {
	switch r.GetState() {
	case intentv1.State_STATE_REFUSED:
		return Refused(r.GetRefusal())
	case intentv1.State_STATE_WITHDRAWN:
		return fault.New(fault.Conflict, "intent %s was withdrawn", r.GetId())
	}
	return nil
}

// Refused returns the error of a refusal that was recorded without a kind, as those of intents and plans are.
func Refused(r *apiv1.Refusal) error {
	switch r.GetCode() {
	case code.Denied:
		return fault.Refuse(fault.Denied, r)
	case code.Conflict, code.PlanStale:
		return fault.Refuse(fault.Conflict, r)
	}
	return fault.Refuse(fault.Invalid, r)
}

// planChanged returns the error for a plan whose parts do not belong together.
func planChanged() error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code.Conflict, Message: "the fleet changed while the plan was listed", Try: "the same command again",
	})
}

// Plan returns what an intent would do now, server by server, with at most limit targets; 0 means all. It writes
// nothing. Publish the intent of a plan, which carries the plan's guard, to do exactly what was shown. A plan of an
// intent that would be refused holds the refusal. An error has the code CONFLICT when the fleet changed between two
// parts of the plan.
func (c *Client) Plan(
	ctx context.Context, q *registryv1.PlanIntentRequest, limit int,
) (*registryv1.PlanIntentResponse, error) {
	var whole *registryv1.PlanIntentResponse
	for part, err := range parts[*registryv1.PlanIntentResponse](ctx, c, q, limit) {
		switch {
		case err != nil:
			return nil, err
		case whole == nil:
			whole = part
			continue
		case !slices.EqualFunc(whole.GetPlans(), part.GetPlans(), samePlan):
			return nil, planChanged()
		}
		whole.Targets = append(whole.Targets, part.GetTargets()...)
		whole.NextCursor = part.GetNextCursor()
	}
	return whole, nil
}

func samePlan(a, b *intentv1.Plan) bool {
	return a.GetAgent() == b.GetAgent() && bytes.Equal(a.GetTargetsSha256(), b.GetTargetsSha256())
}
