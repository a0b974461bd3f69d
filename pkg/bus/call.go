package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// CallSubject returns the subject on which an actor calls a method of a service.
func CallSubject(service string, method protoreflect.MethodDescriptor, actor string) string {
	return topology.APISubject(service, AccessOf(method), kebab(string(method.Name())), actor)
}

// AccessOf returns a method's class of permission, as a token of its subject.
func AccessOf(d protoreflect.MethodDescriptor) string {
	switch proto.GetExtension(d.Options(), apiv1.E_Access).(apiv1.Access) {
	case apiv1.Access_ACCESS_READ:
		return "read"
	case apiv1.Access_ACCESS_WRITE:
		return "write"
	case apiv1.Access_ACCESS_ADMIN:
		return "admin"
	case apiv1.Access_ACCESS_REPORT:
		return "report"
	case apiv1.Access_ACCESS_ANSWER:
		return "answer"
	}
	return "unspecified"
}

// kebab turns ListServers into list-servers.
func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('-')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Call calls a method of a service and waits for the answer, by default for DefaultTimeout.
// The error has the kind and the refusal of the answer.
func Call[R proto.Message](
	ctx context.Context,
	c *Conn,
	service string,
	method protoreflect.MethodDescriptor,
	q proto.Message,
) (R, error) {
	return exchange[R](ctx, c, CallSubject(service, method, c.name), q, unansweredCall(service, method))
}

// Forward calls a method of a service with a request that is encoded already, and returns the answer in the same
// encoding. It looks into neither. It waits and fails as Call does.
func Forward(
	ctx context.Context, c *Conn, service string, method protoreflect.MethodDescriptor, q Encoded,
) ([]byte, error) {
	return send(ctx, c, CallSubject(service, method, c.name), q, unansweredCall(service, method))
}

func unansweredCall(service string, method protoreflect.MethodDescriptor) func(error) error {
	return func(err error) error { return callError(service, AccessOf(method) != "read", err) }
}

// absentAfter is when a call may be repeated that no process of a service took.
const absentAfter = 100 * time.Millisecond

// callError returns the error of a call without an answer. Only one that no process took says when to repeat it: any
// other that writes may have been carried out.
func callError(service string, writes bool, err error) error {
	refusal := &apiv1.Refusal{Code: code.NoAnswer, Component: "bus"}
	unsent := NotSent(err)
	if unsent {
		refusal.RetryAfterMs = uint32(absentAfter.Milliseconds())
	}
	err = requestError(err)
	refusal.Message = fmt.Sprintf("%s does not answer: %v", service, err)
	switch {
	case writes && unsent:
		refusal.Message += "; nothing was changed"
	case writes: // the bus may be unable to store it
		refusal.Message += "; whether the change was made is not known"
		refusal.Try = "garrison bus"
	}
	return fault.Refuse(fault.KindOf(err), refusal)
}

// NotSent reports whether an error proves that a call or a publish reached no receiver.
func NotSent(err error) bool {
	switch r := fault.RefusalOf(err); r.GetCode() {
	case code.NoAnswer, code.Busy:
		return r.GetRetryAfterMs() > 0
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

type requestID struct{}

// AsRequest returns a context whose calls have an id, which the facts that follow from them name; see RequestOf. A call
// that is repeated has the same id.
func AsRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestID{}, id)
}

// RequestOf returns the id that facts have as their request, of a call that an actor made with an id.
func RequestOf(actor, id string) string { return ident.From("request", actor, id) }

// Unmarshal reads a message as JSON when its content type says so, and as protobuf otherwise. An error is Invalid.
func Unmarshal(m Message, into proto.Message) error {
	if err := unmarshal(m.Get(contentType) == typeJSON, m.Data, into); err != nil {
		return fault.New(fault.Invalid, "read %s: %w", into.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

func unmarshal(json bool, data []byte, into proto.Message) error {
	if json {
		if len(data) == 0 {
			return nil
		}
		return strict.UnmarshalJSON(data, into)
	}
	return strict.Unmarshal(data, into)
}

func marshal(json bool, m proto.Message) ([]byte, error) { return marshalAppend(nil, json, m) }

// marshalAppend appends a message to b.
func marshalAppend(b []byte, json bool, m proto.Message) ([]byte, error) {
	if json {
		return protojson.MarshalOptions{}.MarshalAppend(b, m)
	}
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

func get(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// note is the key of what WithNote sets.
type note struct{}

// WithNote returns a context whose calls say why: the facts that follow from them keep it. See ledger.CheckNote.
func WithNote(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, note{}, why)
}
