package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// activateTimeout is above the longest time for which a service works on one request.
const activateTimeout = 40 * time.Second

// method is a method of a service.
type method struct {
	service    string
	descriptor protoreflect.MethodDescriptor
}

// Services describes the services that can be called, by their names on the bus.
var Services = map[string]protoreflect.ServiceDescriptor{
	ledger.Registry: registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService"),
	ledger.Catalog:  catalogv1.File_garrison_catalog_v1_catalog_service_proto.Services().ByName("CatalogService"),
	ledger.Dispatcher: dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().
		ByName("DispatcherService"),
	ledger.Access: accessv1.File_garrison_access_v1_access_service_proto.Services().ByName("AccessService"),
}

// aboutService has the methods of every service.
var aboutService = apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService")

// methodOf returns the method that takes a request, which is in the package of its service. It reads the descriptors
// of no other service: that would take a quarter of the time of a short command.
func methodOf(request proto.Message) (method, bool) {
	is := request.ProtoReflect().Descriptor()
	for name, s := range Services {
		if s.ParentFile().Package() == is.ParentFile().Package() {
			d := taking(s, is)
			return method{name, d}, d != nil
		}
	}
	return method{}, false
}

// taking returns the method of a service that takes a request, or nil.
func taking(s protoreflect.ServiceDescriptor, request protoreflect.MessageDescriptor) protoreflect.MethodDescriptor {
	for i := range s.Methods().Len() {
		if m := s.Methods().Get(i); m.Input().FullName() == request.FullName() {
			return m
		}
	}
	return nil
}

// Call asks the service that takes the request and returns its answer. Each request message belongs to one method, and
// R must be the type of that method's answer.
func Call[R proto.Message](ctx context.Context, c *Client, request proto.Message) (R, error) {
	m, ok := methodOf(request)
	if !ok {
		var zero R
		return zero, fault.New(fault.Internal, "no service takes a %s", request.ProtoReflect().Descriptor().FullName())
	}
	return call[R](ctx, c, m, c.patience.within, request)
}

// CallService asks a service, by its name on the bus, one of the requests that every service takes: AboutRequest,
// ListProcessesRequest or ViewRequest. A service that is not there is waited for no longer than one timeout.
func CallService[R proto.Message](ctx context.Context, c *Client, service string, request proto.Message) (R, error) {
	is := request.ProtoReflect().Descriptor()
	d := taking(aboutService, is)
	if d == nil {
		var zero R
		return zero, fault.New(fault.Internal, "a %s is for one service only; use Call", is.FullName())
	}
	return call[R](ctx, c, method{service, d}, c.timeout, request)
}

func call[R proto.Message](
	ctx context.Context, c *Client, m method, within time.Duration, request proto.Message,
) (R, error) {
	var zero R
	if have, want := zero.ProtoReflect().Descriptor().FullName(), m.descriptor.Output().FullName(); have != want {
		return zero, fault.New(fault.Internal, "the answer of %s is a %s, not a %s", m.descriptor.Name(), want, have)
	}
	r := zero
	err := exchange(ctx, c, m, request, within, c.callTimeout(request), func(ctx context.Context) (err error) {
		r, err = bus.Call[R](ctx, c.conn, m.service, m.descriptor, request)
		return err
	})
	return r, err
}

// Forward asks a service, by its name on the bus, with a request that is encoded already, and returns the answer in the
// same encoding. It is for programs that pass on what others ask; OnWrite is called without a message.
func Forward(
	ctx context.Context, c *Client, service string, d protoreflect.MethodDescriptor, q bus.Encoded,
) (answer []byte, err error) {
	timeout := c.timeout
	switch d.Name() {
	case "ActivateImage", "GetIntent": // see callTimeout
		timeout = max(c.timeout, activateTimeout)
	}
	within := c.patience.within
	err = exchange(ctx, c, method{service, d}, nil, within, timeout, func(ctx context.Context) (err error) {
		answer, err = bus.Forward(ctx, c.conn, service, d, q)
		return err
	})
	return answer, err
}

// exchange runs the question of a call until it is answered, within patience. The question takes timeout at most.
func exchange(
	ctx context.Context, c *Client, m method, request proto.Message, within, timeout time.Duration,
	question func(context.Context) error,
) error {
	writes := bus.AccessOf(m.descriptor) != readAccess && !seals(m.descriptor)
	if writes {
		if err := mayWrite(ctx, c, string(m.descriptor.Name()), request); err != nil {
			return err
		}
	}
	id, subject := ident.New(), bus.CallSubject(m.service, m.descriptor, c.Actor())
	open, err := c.insist(ctx, within, func() error {
		return c.ask(ctx, timeout, subject, func(ctx context.Context) error { return question(bus.AsRequest(ctx, id)) })
	})
	switch {
	case err != nil && open && writes:
		err = c.outcome(ctx, id, err)
	case err == nil && writes && bus.IsDryRun(ctx):
		err = bus.ErrUnchanged
	}
	return err
}

// seals reports whether a method, which only some users may call, encrypts and records nothing.
func seals(d protoreflect.MethodDescriptor) bool {
	return d.Name() == "SealSecrets"
}

// readAccess is the permission that calls need which change nothing.
const readAccess = "read"

// lookBack is how many facts at the end of the ledger are searched for those of a call whose answer was lost.
const lookBack = 5000

// outcome returns the error of a change with a try that was not answered. A fact that names the call proves that the
// change is stored, whatever the last try met.
func (c *Client) outcome(ctx context.Context, id string, err error) error {
	looking, cancel := context.WithTimeout(context.WithValue(ctx, askedAgain{}, true), c.timeout)
	defer cancel()
	end, e := c.LedgerEnd(looking)
	if e != nil {
		return err
	}
	request := bus.RequestOf(c.Actor(), id)
	found, e := c.LastEvents(looking, 1, Query{From: end - min(end, lookBack), Gaps: true}, func(e Event) bool {
		return e.Request == request
	})
	if e != nil || len(found) == 0 {
		return err
	}
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{
		Code: code.NoAnswer, Component: "bus", Try: fmt.Sprintf("garrison events --id %s", found[0].Key),
		Message: fmt.Sprintf("the change is stored as fact %d, and the answer to it was lost", found[0].Sequence),
	})
}

// ask runs one question to the bus on a subject. It bounds the question, and fails it when the bus forbids the subject.
func (c *Client) ask(
	ctx context.Context, timeout time.Duration, subject string, question func(context.Context) error,
) error {
	watched, stop := c.denials.watch(ctx, subject)
	defer stop()
	once, cancel := context.WithTimeout(watched, timeout)
	defer cancel()
	err := question(once)
	if err != nil && watched.Err() != nil {
		return context.Cause(watched) // the caller gave up, or the bus forbids the subject
	}
	return c.shutOut(err)
}

// callTimeout bounds one call, however long the caller may wait: the answer of a service that restarted never comes.
func (c *Client) callTimeout(request proto.Message) time.Duration {
	switch q := request.(type) {
	case *catalogv1.ActivateImageRequest: // the service reads the whole content first
		return max(c.timeout, activateTimeout)
	case *registryv1.GetIntentRequest: // the service waits for a decision
		return c.timeout + q.GetWait().AsDuration()
	}
	return c.timeout
}

// WithNote returns a context whose calls say why: the facts that follow from them keep it, 500 printable bytes at most.
func WithNote(ctx context.Context, why string) context.Context { return bus.WithNote(ctx, why) }

// The errors of a change in a dry run, which ends before anything is stored: ErrDryRun of one that was checked and
// would be stored, ErrUnchanged of one that would store nothing. ErrUnchanged is an ErrDryRun.
var (
	ErrDryRun    = bus.ErrDryRun
	ErrUnchanged = bus.ErrUnchanged
)

// WithDryRun returns a context whose calls and intents are checked and stored nowhere.
func WithDryRun(ctx context.Context) context.Context { return bus.WithDryRun(ctx) }
