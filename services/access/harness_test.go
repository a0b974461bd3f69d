package access_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/access"
)

// world is a bus with accounts, one or more processes of the service, and a registry that writes facts.
type world struct {
	*testing.T
	bus      *bustest.Guarded
	registry *bus.Writer
	admin    *bus.Conn
}

func newWorld(t *testing.T, replicas int) *world {
	t.Helper()
	return onBus(t, bustest.StartGuarded(t), replicas)
}

// onBus is newWorld on a bus that is there.
func onBus(t *testing.T, b *bustest.Guarded, replicas int) *world {
	t.Helper()
	w := &world{T: t, bus: b}
	w.admin = w.bus.Person(t, "root", topology.Admin)
	for range replicas {
		w.start()
	}
	w.registry = w.bus.Service(t, topology.UserRegistry).NewWriter()
	bustest.Go(t, w.registry.Run)
	return w
}

// start runs a process of the service and waits until it answers.
func (w *world) start() (stop func()) {
	w.Helper()
	issuer, err := trust.OpenIssuer(w.bus.Dir())
	if err != nil {
		w.Fatal(err)
	}
	a, err := access.New(access.Config{
		Conn:   w.bus.Service(w, topology.UserAccess),
		System: bus.NewSystem(w.bus.Service(w, topology.UserAccessSystem)),
		Issuer: issuer, CA: func() ([]byte, error) { return []byte("the CA of the bus"), nil },
		Log: zerolog.New(zerolog.NewTestWriter(w.T)).Level(zerolog.WarnLevel),
	})
	if err != nil {
		w.Fatal(err)
	}
	return bustest.Serve(w, a.Run, a.Serving())
}

func call[R proto.Message](w *world, c *bus.Conn, method string, q proto.Message) (R, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return callIn[R](ctx, c, method, q)
}

func callIn[R proto.Message](ctx context.Context, c *bus.Conn, method string, q proto.Message) (R, error) {
	d := accessv1.File_garrison_access_v1_access_service_proto.Services().ByName("AccessService")
	return bus.Call[R](ctx, c, ledger.Access, d.Methods().ByName(protoreflect.Name(method)), q)
}

// must is call for requests that must succeed.
func must[R proto.Message](w *world, c *bus.Conn, method string, q proto.Message) R {
	w.Helper()
	r, err := call[R](w, c, method, q)
	if err != nil {
		w.Fatalf("%s: %v", method, err)
	}
	return r
}

// record writes facts about a server, as the registry does.
func (w *world) record(id string, bodies ...proto.Message) {
	w.Helper()
	for _, b := range bodies {
		f := ledger.Fact{
			Noun: ledger.Server, Key: id, Body: b, ID: ident.New(), At: time.Now(), Source: ledger.Registry,
			Actor: ledger.Registry,
		}
		if _, err := w.registry.Append(w.Context(), ledger.Free(f)); err != nil {
			w.Fatal(err)
		}
	}
}

// login is credentials.
type login struct {
	name, jwt, public string
	seed              []byte
}

// server returns the credentials of a server that has enrolled.
func (w *world) server() login {
	w.Helper()
	l := login{name: ident.New()}
	l.jwt, l.seed = w.bus.ServerUser(w, l.name, "main")
	l.public = publicOf(l.seed)
	w.record(l.name, &serverv1.Invited{Name: "s-" + l.name, Cell: "main"},
		&serverv1.Enrolled{PublicKey: l.public, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))})
	return l
}

// user creates a user.
func (w *world) user(name string, role userv1.Role) login {
	w.Helper()
	l := login{name: name}
	var err error
	if l.public, l.seed, err = trust.NewUserKey(); err != nil {
		w.Fatal(err)
	}
	l.jwt = must[*accessv1.CreateUserResponse](w, w.admin, "CreateUser",
		&accessv1.CreateUserRequest{Name: name, Role: role, PublicKey: l.public}).Jwt
	return l
}

func publicOf(seed []byte) string { return trust.Context{Seed: string(seed)}.PublicKey() }

// connection is an open connection that does not come back.
type connection struct{ gone chan struct{} }

func (w *world) connect(l login) connection {
	w.Helper()
	c := connection{make(chan struct{})}
	nc := w.bus.RawAs(w, l.name, l.jwt, l.seed)
	nc.Opts.AllowReconnect = false
	nc.SetClosedHandler(func(*nats.Conn) { close(c.gone) })
	return c
}

// shutOut fails the test unless the connection ends, and no other one is let in.
func (w *world) shutOut(c connection, l login) {
	w.Helper()
	begun := time.Now()
	select {
	case <-c.gone:
	case <-time.After(time.Minute):
		w.Fatalf("the connection of %s is still open after a minute", l.name)
	}
	w.Logf("the connection ended after %v", time.Since(begun).Round(time.Millisecond))
	if w.letIn(l) {
		w.Fatalf("%s is let in again", l.name)
	}
}

// letIn tries to log in.
func (w *world) letIn(l login) bool {
	w.Helper()
	c, err := bus.Dial(bus.Options{
		URL: w.bus.URL, Name: l.name, Credentials: func() (string, []byte, error) { return l.jwt, l.seed, nil },
	})
	if err == nil {
		c.Close()
	}
	return err == nil
}

// recordAt writes a fact about a server that was decided at another time.
func (w *world) recordAt(at time.Time, id string, b proto.Message) {
	w.Helper()
	f := ledger.Fact{
		Noun: ledger.Server, Key: id, Body: b, ID: ident.New(), At: at, Source: ledger.Registry, Actor: ledger.Registry,
	}
	if _, err := w.registry.Append(w.Context(), ledger.Free(f)); err != nil {
		w.Fatal(err)
	}
}
