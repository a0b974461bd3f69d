package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
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
	Note    string // why, or empty; see ledger.CheckNote
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
	open    atomic.Int64    // requests that were taken and are not answered yet
	reading context.Context // of the requests that change nothing; it ends when the service stops
	stop    context.CancelFunc

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
	s.reading, s.stop = context.WithCancel(context.Background())
	for _, d := range append(services, apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService")) {
		for i := range d.Methods().Len() {
			s.methods[string(d.Methods().Get(i).Name())] = d.Methods().Get(i)
		}
	}
	return s, nil
}

const (
	// finishWithin is how long a service that stops has for the requests that it has taken.
	finishWithin = 10 * time.Second
	// quietFor is how long none must be open: what arrived just before the stop is taken within that.
	quietFor = 20 * time.Millisecond
)

// Close takes no more requests, so that the bus answers at once that there is no receiver and callers repeat them, and
// waits until those that it has taken are answered. Questions that wait for something are to be repeated too.
func (s *Service) Close() {
	for _, f := range s.onClose {
		f()
	}
	_ = s.micro.Stop()
	s.stop()
	_ = s.conn.nc.FlushTimeout(drainWithin) // what came before the bus knew is here now
	until := time.Now().Add(finishWithin)
	for quiet := time.Now(); time.Now().Before(until); time.Sleep(quietFor / 4) {
		if s.open.Load() > 0 {
			quiet = time.Now()
		} else if time.Since(quiet) >= quietFor {
			return
		}
	}
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
	from := context.Background()
	if AccessOf(d) == "read" {
		from, f = s.reading, alone(s, f)
	}
	answer := func(r micro.Request) { serve(from, s, r, f, reuse) }
	s.handle(AccessOf(d), kebab(method))
	err := s.micro.AddEndpoint(method, micro.HandlerFunc(func(r micro.Request) {
		s.take(r, answer)
	}), micro.WithEndpointSubject(topology.APISubject(s.name, AccessOf(d), kebab(method), "*")))
	s.conn.settleSubscription()
	return err
}

// alone has a question that panics end by itself, and not the service with it: it has changed nothing. A change that
// panics ends the program, which then reads from the ledger how far it came.
func alone[Q, R proto.Message](
	s *Service, f func(context.Context, Caller, Q) (R, error),
) func(context.Context, Caller, Q) (R, error) {
	return func(ctx context.Context, c Caller, q Q) (r R, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.conn.log.Error().Str(logs.Actor, c.Actor).Str("stack", string(debug.Stack())).
					Msgf("a question panicked: %v", p)
				err = fault.New(fault.Internal, "%s failed over this question, and logged where", s.name)
			}
		}()
		return f(ctx, c, q)
	}
}

func serve[Q, R proto.Message](
	ctx context.Context, s *Service, r micro.Request, f func(context.Context, Caller, Q) (R, error), reuse []func(R),
) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	header := map[string][]string(r.Headers())
	caller := callerOf(topology.ActorOf(r.Subject()), header)
	json := get(header, contentType) == typeJSON
	var zero Q
	q := zero.ProtoReflect().New().Interface().(Q)
	if err := cmp.Or(checkNote(header), s.read(json, r.Data(), q)); err != nil {
		s.refuse(r, err)
		return
	}
	var marked nats.Header
	if get(header, headerDryRun) != "" {
		ctx = WithDryRun(ctx)
	}
	resp, err := f(ctx, caller, q)
	if errors.Is(err, ErrDryRun) {
		err, marked = nil, nats.Header{headerDryRun: {"1"}}
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = s.leaving()
	}
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
	if err := s.conn.tooLarge(s.answer(r, marked, data), len(data)); err != nil {
		s.refuse(r, err)
	}
}

// leaving refuses a question that the service cannot answer before it stops.
func (s *Service) leaving() error {
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{
		Code: code.NoAnswer, RetryAfterMs: uint32(absentAfter.Milliseconds()), Message: s.name + " stops; ask again",
	})
}

// answers keeps room for answers: a page of a list is 100 KB, which would be garbage with each.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// callerOf reads who asks. The bus checked the actor's name, and nothing in the header, so an id of the caller's own
// counts only together with that name: it never is the id of another person's request or intent.
func callerOf(actor string, header map[string][]string) Caller {
	c := Caller{
		Actor: actor, Request: ident.New(), Trace: ledger.CheckTrace(get(header, ledger.HeaderTrace)),
		Note: ledger.CheckNote(get(header, ledger.HeaderNote)),
	}
	if given := get(header, ledger.HeaderRequest); ident.IsUUID(given) {
		c.Request = RequestOf(actor, given)
	}
	return c
}

// checkNote refuses a note that no fact could keep.
func checkNote(header map[string][]string) error {
	if note := get(header, ledger.HeaderNote); ledger.CheckNote(note) != note {
		return fault.Refusef(fault.Invalid, code.Invalid,
			"the note of the request is not one line of printable text, of %d bytes at most", ledger.MaxNote)
	}
	return nil
}

// read reads a request, and refuses one that it would carry out only in part: with a field or
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

// asked is what is known of a request when it is answered.
type asked interface {
	Subject() string
	Reply() string
	Headers() micro.Headers
}

// answer sends an answer by itself. The request's own methods note the error in the
// request for the package micro's statistics, which reads it as soon as the handler has
// returned; here the handler goes on in a goroutine, so that would be a data race.
func (s *Service) answer(r asked, header nats.Header, data []byte) error {
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
func (s *Service) refuse(r asked, err error) {
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
