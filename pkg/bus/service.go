package bus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// callsAtOnce bounds how many requests one service handles at a time; the rest wait, see callers.
	callsAtOnce = 64
	// callWithin bounds one request.
	callWithin = 35 * time.Second

	contentType = "Content-Type"
	typeJSON    = "application/json"
	typeProto   = "application/protobuf"
)

// Caller is who asks. The bus checked the name.
type Caller struct {
	Actor   string
	Request string // an id for everything that follows from the request; of this caller alone
	Trace   string // a W3C traceparent, or empty
}

// Service answers requests at garrison.api.NAME.>. Methods are those of protobuf service
// descriptors; each is in the class of permission that its option garrison.api.v1.access says.
type Service struct {
	conn    *Conn
	name    string
	version string
	micro   micro.Service
	methods map[string]protoreflect.MethodDescriptor
	slots   chan struct{}
	callers *callers

	mu      sync.Mutex
	handled map[string]bool // the subjects of the methods with a handler, without the actor
	onClose []func()
}

var isSemver = regexp.MustCompile(`^v?(\d+\.\d+\.\d+\S*)$`)

// NewService announces a service. Close it when done.
func (c *Conn) NewService(name, version string, services ...protoreflect.ServiceDescriptor) (*Service, error) {
	announced := "0.0.0"
	if m := isSemver.FindStringSubmatch(version); m != nil {
		announced = m[1]
	}
	ms, err := micro.AddService(c.nc, micro.Config{Name: name, Version: announced, Description: "Garrison " + version})
	if err != nil {
		return nil, fmt.Errorf("announce service %s: %w", name, err)
	}
	s := &Service{
		conn: c, name: name, version: version, micro: ms, methods: map[string]protoreflect.MethodDescriptor{},
		slots: make(chan struct{}, callsAtOnce), callers: newCallers(), handled: map[string]bool{},
	}
	for _, d := range append(services, apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService")) {
		for i := range d.Methods().Len() {
			s.methods[string(d.Methods().Get(i).Name())] = d.Methods().Get(i)
		}
	}
	return s, nil
}

// Close stops answering.
func (s *Service) Close() {
	for _, f := range s.onClose {
		f()
	}
	_ = s.micro.Stop()
}

// OnClose calls f when the service is closed. It is not safe for concurrent use with Close.
func (s *Service) OnClose(f func()) { s.onClose = append(s.onClose, f) }

// Handle answers one method, named as in its protobuf service. It is an error to name
// one that no descriptor has or whose request is of another type. When it returns the
// bus knows of it, as with Subscribe. Each answer that f returned goes to reuse once it is sent.
func Handle[Q, R proto.Message](
	s *Service, method string, f func(context.Context, Caller, Q) (R, error), reuse ...func(R),
) error {
	d, ok := s.methods[method]
	if !ok {
		return fault.New(fault.Internal, "service %s has no method %s", s.name, method)
	}
	var q Q
	if have, want := q.ProtoReflect().Descriptor().FullName(), d.Input().FullName(); have != want {
		return fault.New(fault.Internal, "method %s takes %s, not %s", method, want, have)
	}
	answer := func(r micro.Request) { serve(s, r, f, reuse) }
	s.handle(AccessOf(d), kebab(method))
	err := s.micro.AddEndpoint(method, micro.HandlerFunc(func(r micro.Request) {
		s.take(r, answer)
	}), micro.WithEndpointSubject(topology.APISubject(s.name, AccessOf(d), kebab(method), "*")))
	s.conn.settleSubscription()
	return err
}

func serve[Q, R proto.Message](
	s *Service, r micro.Request, f func(context.Context, Caller, Q) (R, error), reuse []func(R),
) {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	header := map[string][]string(r.Headers())
	caller := callerOf(topology.ActorOf(r.Subject()), header)
	json := get(header, contentType) == typeJSON
	var zero Q
	q := zero.ProtoReflect().New().Interface().(Q)
	if err := s.read(json, r.Data(), q); err != nil {
		s.refuse(r, err)
		return
	}
	resp, err := f(ctx, caller, q)
	if err != nil {
		s.refuse(r, err)
		return
	}
	defer func() {
		for _, take := range reuse {
			take(resp)
		}
	}()
	room := answers.Get().(*[]byte)
	defer answers.Put(room)
	data, err := marshalAppend((*room)[:0], json, resp)
	if err != nil {
		s.refuse(r, fault.New(fault.Internal, "write answer: %w", err))
		return
	}
	*room = data // the connection copies it
	if err := s.conn.tooLarge(s.answer(r, nil, data), len(data)); err != nil {
		s.refuse(r, err)
	}
}

// answers keeps room for answers: a page of a list is 100 KB, which would be garbage with each.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// callerOf reads who asks. The bus checked the actor's name, and nothing in the header, so an id of the caller's own
// counts only together with that name: it never is the id of another person's request or intent.
func callerOf(actor string, header map[string][]string) Caller {
	c := Caller{Actor: actor, Request: ident.New(), Trace: ledger.CheckTrace(get(header, ledger.HeaderTrace))}
	if given := get(header, ledger.HeaderRequest); ident.IsUUID(given) {
		c.Request = RequestOf(actor, given)
	}
	return c
}

// read reads a request, and refuses one of which it would do a part only: with a field or
// an enum value of a newer contract. In a question it may be a filter.
func (s *Service) read(json bool, data []byte, q proto.Message) error {
	name := q.ProtoReflect().Descriptor().Name()
	if err := unmarshal(json, data, q); err != nil {
		return s.unreadable(code.Malformed, fmt.Sprintf("%s cannot be read: %s", name, oneLine(err.Error())))
	}
	if err := strict.Check(q); err != nil {
		return s.unreadable(code.UnknownField, fmt.Sprintf("%s: %s", name, err))
	}
	return nil
}

// unreadable refuses a request of another version than the service.
func (s *Service) unreadable(code, what string) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code:    code,
		Message: fmt.Sprintf("%s; this %s is version %s", what, s.name, s.version),
		Try:     "garrison versions",
	})
}

// answer sends an answer by itself. The request's own methods note the error in the
// request for the package micro's statistics, which reads it as soon as the handler has
// returned; here the handler goes on in a goroutine, so that would be a data race.
func (s *Service) answer(r micro.Request, header nats.Header, data []byte) error {
	return s.conn.nc.PublishMsg(&nats.Msg{Subject: r.Reply(), Header: header, Data: data})
}

// codeOf returns the code of an error that has a kind and no refusal.
func codeOf(kind fault.Kind) string {
	switch kind {
	case fault.Invalid:
		return code.Invalid
	case fault.NotFound:
		return code.NotFound
	case fault.Conflict:
		return code.Conflict
	case fault.Denied:
		return code.Denied
	case fault.Unavailable:
		return code.Unavailable
	}
	return code.Internal
}

// refuse answers with the error's kind as code, its text, and its refusal as body.
func (s *Service) refuse(r micro.Request, err error) {
	kind := fault.KindOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		kind = fault.Unavailable
	}
	if kind == fault.Internal {
		s.conn.log.Error().Err(err).Str(logs.Subject, r.Subject()).Msg("request failed")
	}
	refusal := fault.RefusalOf(err)
	if refusal == nil {
		refusal = &apiv1.Refusal{
			Code:    codeOf(kind),
			Message: err.Error(),
		}
	}
	if refusal.Component == "" {
		refusal = proto.CloneOf(refusal)
		refusal.Component = s.name
	}
	json := get(r.Headers(), contentType) == typeJSON
	header := nats.Header{micro.ErrorCodeHeader: {kind.String()}, micro.ErrorHeader: {oneLine(err.Error())}}
	if proto.Size(refusal) > longRefusal {
		refusal = short(refusal)
	}
	data, _ := marshal(json, refusal)
	_ = s.answer(r, header, data)
}

// CallSubject returns the subject on which an actor calls a method of a service.
func CallSubject(service string, method protoreflect.MethodDescriptor, actor string) string {
	return topology.APISubject(service, AccessOf(method), kebab(string(method.Name())), actor)
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
	return exchange[R](ctx, c, CallSubject(service, method, c.name), q,
		func(err error) error { return callError(service, AccessOf(method) != "read", err) })
}

// absentAfter is when a call may be repeated that no process of a service took.
const absentAfter = 100 * time.Millisecond

// callError says when a call may be repeated only if no process took it: whether any other that writes was carried out
// is not known.
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
	case writes:
		refusal.Message += "; whether the change was made is not known"
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

func answeredError(kind fault.Kind, text string, body []byte) error {
	var r apiv1.Refusal
	if err := proto.Unmarshal(body, &r); err != nil || r.Code == "" {
		return fault.New(kind, "%s", text)
	}
	return fault.Refuse(kind, &r)
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
