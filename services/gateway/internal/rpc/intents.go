package rpc

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/gateway/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

// Service describes the gateway's own methods.
var Service = gatewayv1.File_garrison_gateway_v1_gateway_service_proto.Services().ByName("GatewayService")

func own(name protoreflect.Name) (procedure string, o []connect.HandlerOption) {
	m := Service.Methods().ByName(name)
	return Procedure(m), options(m)
}

const (
	// decideWithin is how long an intent's decision is waited for.
	decideWithin = 20 * time.Second
	// headerKey is the id of an intent, when its request has none.
	headerKey = "Idempotency-Key"
)

func handleIntents(mux *http.ServeMux, more connect.HandlerOption) {
	procedure, o := own("PublishIntent")
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, publish, append(o, more)...))
}

// publish stores an intent and returns its decision.
func publish(
	ctx context.Context, q *connect.Request[gatewayv1.PublishIntentRequest],
) (*connect.Response[gatewayv1.PublishIntentResponse], error) {
	id, err := idOf(q)
	if err != nil {
		return nil, failure.Error(err)
	}
	in := q.Msg.GetIntent()
	if in == nil {
		in = &intentv1.Intent{} // refused as one that asks for nothing
	}
	in.Note = cmp.Or(in.GetNote(), q.Header().Get(headerNote))
	decided, err := submit(ctx, actor.From(ctx), id, in)
	if err != nil {
		return nil, failure.Error(err)
	}
	return connect.NewResponse(&gatewayv1.PublishIntentResponse{Intent: decided}), nil
}

// idOf returns the id of the intent in a request.
func idOf(q *connect.Request[gatewayv1.PublishIntentRequest]) (string, error) {
	id, key := strings.ToLower(q.Msg.GetIntentId()), strings.ToLower(q.Header().Get(headerKey))
	switch {
	case len(q.Header().Values(headerDryRun)) > 0:
		return "", fault.Refusef(fault.Invalid, code.Invalid,
			"what is published is stored: PlanIntent shows what an intent would do").
			Try("/garrison.registry.v1.RegistryService/PlanIntent")
	case id != "" && key != "" && id != key:
		return "", fault.Refusef(fault.Invalid, code.Invalid, "intent_id and the header %s differ", headerKey)
	case id == "" && key == "":
		return client.NewID(), nil
	case id == "":
		id = key
	}
	if !ident.IsUUID(id) {
		return "", fault.Refusef(fault.Invalid, code.Invalid, "the id of an intent must be a UUID, not %.60q", id)
	}
	return id, nil
}

// submit publishes an intent under an id and waits for its decision. An id that another intent of the actor has is
// refused.
func submit(ctx context.Context, c *client.Client, id string, in *intentv1.Intent) (*intentv1.Record, error) {
	if err := c.Publish(ctx, id, in); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, decideWithin)
	defer cancel()
	decided, err := c.Decision(waiting, id)
	if decided == nil && waiting.Err() != nil && ctx.Err() == nil {
		return &intentv1.Record{Id: id}, nil // stored, and the caller asks again
	}
	if decided != nil && (decided.GetActor() != c.Actor() || !proto.Equal(decided.GetIntent(), in)) {
		return nil, fault.Refusef(fault.Conflict, code.Conflict, "another intent has the id %s", id)
	}
	return decided, err
}
