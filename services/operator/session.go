package operator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// dialWithin bounds connecting to the bus, all of its addresses together.
const dialWithin = 4500 * time.Millisecond

// session is one run of the command line: where it reads and writes, and its connection.
type session struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	dial     func(bus.Options) (*bus.Conn, error)
	patience time.Duration // how long one answer is waited for; 0 means bus.DefaultTimeout
	sayEvery time.Duration // how often progress is printed without a terminal; 0 means sayEvery

	stop    context.CancelCauseFunc // ends the run's context
	began   bool                    // the command line was understood
	context string                  // --context
	output  outputFlags
	who     trust.Context
	conn    *bus.Conn
}

// isTerminal says whether a person sits at a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// say writes one line of talk.
func (s *session) say(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }

// connect gives the connection to the bus, made at its first use.
func (s *session) connect(ctx context.Context) (*bus.Conn, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	who, err := s.findContext()
	if err != nil {
		return nil, err
	}
	s.who = who
	s.conn, err = s.dialBounded(ctx, bus.Options{
		URL: who.URL, Name: who.Actor, API: topology.OpsAPI, Credentials: who.Credentials,
		Log: zerolog.Nop(), Denied: func(err error) { s.stop(s.notAllowed(err)) },
	})
	return s.conn, err
}

// dialBounded gives up after dialWithin, also when a machine on the way swallows packets.
func (s *session) dialBounded(ctx context.Context, o bus.Options) (*bus.Conn, error) {
	type result struct {
		conn *bus.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := s.dial(o)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, s.noBus(r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(dialWithin):
		return nil, s.noBus(fault.New(fault.Unavailable, "no answer within %s", dialWithin))
	}
}

func (s *session) noBus(err error) error {
	if fault.Is(err, fault.Denied) {
		return refuse(fault.Denied, &apiv1.Refusal{
			Code: "LOGIN_REFUSED", Component: "bus",
			Message: fmt.Sprintf("the bus at %s does not let %s in: %v", s.who.URL, s.who.Actor, err),
			Try:     "garrison context list",
		})
	}
	return refuse(fault.Unavailable, &apiv1.Refusal{
		Code: "BUS_AWAY", Component: "bus",
		Message: fmt.Sprintf("no connection to the bus at %s as %s: %v", s.who.URL, s.who.Actor, err),
		Try:     "start garrisond or the bus there, or choose another context: garrison context list",
	})
}

func (s *session) notAllowed(err error) error {
	return refuse(fault.Denied, &apiv1.Refusal{
		Code: "NOT_ALLOWED", Component: "bus",
		Message: fmt.Sprintf("%s has the role %s, which may not do this: %v", s.who.Actor, s.who.Role, err),
		Try:     "garrison context list",
	})
}

func (s *session) close() {
	if s.conn != nil {
		s.conn.Close()
	}
}

// services are those that the command line asks, by name on the bus.
var services = map[string]protoreflect.ServiceDescriptor{
	ledger.Registry:   registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService"),
	ledger.Catalog:    catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().ByName("CatalogService"),
	ledger.Dispatcher: dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().ByName("DispatcherService"),
}

// activationWithin is above the longest that a service works on one request.
const activationWithin = 40 * time.Second

// answerWithin bounds one question, however long the command may wait: an answer that a
// bus took with it when it was started anew never comes.
func (s *session) answerWithin(method protoreflect.MethodDescriptor) time.Duration {
	if method.Name() == "ActivateImage" { // the service reads the whole content back
		return activationWithin
	}
	return cmp.Or(s.patience, bus.DefaultTimeout)
}

// call asks the service that has the method.
func call[R proto.Message](ctx context.Context, s *session, method protoreflect.Name, q proto.Message) (R, error) {
	for name, d := range services {
		if m := d.Methods().ByName(method); m != nil {
			return callOn[R](ctx, s, name, m, q)
		}
	}
	var zero R
	return zero, fmt.Errorf("no service has the method %s", method)
}

func callOn[R proto.Message](ctx context.Context, s *session, service string, method protoreflect.MethodDescriptor, q proto.Message) (R, error) {
	var zero R
	conn, err := s.connect(ctx)
	if err != nil {
		return zero, err
	}
	once, cancel := context.WithTimeout(ctx, s.answerWithin(method))
	defer cancel()
	r, err := bus.Call[R](once, conn, service, method, q)
	if err != nil && ctx.Err() != nil {
		return zero, context.Cause(ctx) // interrupted, or told that it is not allowed
	}
	return r, err
}
