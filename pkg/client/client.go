// Package client talks to a Garrison control plane: it publishes intents and waits for their decisions, plans, lists
// objects, watches work until it ends, follows the ledger, and sends and fetches images. The garrison CLI, the tests in
// e2e and programs of other teams are built on it.
//
// Open connects with a context file, which names the bus, the actor and the actor's credentials. The requests and
// answers are the protobuf messages of proto/garrison; Call sends any of them:
//
//	c, err := client.Open(ctx, "operator.json")
//	…
//	defer c.Close()
//	r, err := client.Call[*registryv1.GetServerResponse](ctx, c, &registryv1.GetServerRequest{Server: "web-1"})
//
// Guarantees:
//
//  1. Every wait ends: a call after Options.Timeout or with its context, whichever is first; everything that waits
//     for longer (Decision, Await, Watch, Follow, Activate) with its context. Its error then wraps context.Cause. A
//     call or a publish that was not answered is repeated with its id while an outage of the bus or of a service
//     lasts, for six times Options.Timeout (30 s) at most, which is longer than an election and the leaving of a server
//     that stands still. OnWait hears of it once. When a repeated change is refused, the ledger is searched for the
//     change, so that what an earlier try stored is called stored.
//  2. An error has a kind (package fault). A refusal of a service, or of the registry in its decision about an intent,
//     travels in the error unchanged (fault.RefusalOf). When the bus forbids a call, the call fails at once with kind
//     Denied and code DENIED.
//  3. An intent is decided at most once, however often Publish is retried with the same id. NotStored tells from an
//     error of Publish that the intent is not stored. When the decision is not known, Submit's error says so and names
//     the id; Decision asks again.
//  4. A dry run is Plan: it writes nothing. An intent published with the guard of a plan does what the plan showed, or
//     is refused with PLAN_STALE. All parts of one plan are of the same state of the fleet, or Plan returns a conflict.
//  5. Lists are read in parts, each a call of its own; no more than one part is held. A row that changes meanwhile may
//     be missing or in its old state.
//  6. Follow yields every fact of the ledger behind a position exactly once and in order, also across disconnects and
//     restarts of the bus. When it cannot, because facts are missing or because the ledger was set back (as by a
//     restored backup), it ends with a *ResetError that says where to continue. With Query.Noun or Query.Key only a
//     ledger that was set back is detected, not missing facts.
//  7. Import sends only the chunks that the catalog lacks, so an interrupted import continues where it stopped. The
//     same file again sends nothing.
//  8. Memory is bounded: one part of a list, 500 facts, four chunks of an image.
//
// A Client is safe for concurrent use.
package client

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// connectTimeout bounds one try to connect to the bus, connectSeveral one over several addresses: two of three servers
// may stand still.
const connectTimeout, connectSeveral = 4500 * time.Millisecond, 10 * time.Second

// Options say where the bus is, who connects, and how long a call may take.
type Options struct {
	Context trust.Context  // the bus, the actor and the actor's credentials
	Timeout time.Duration  // of one call, see the guarantees; 0 means bus.DefaultTimeout
	Log     zerolog.Logger // what happens to the connection; the zero value logs nothing

	Dial   func(bus.Options) (*bus.Conn, error)    // connects; nil means bus.Dial
	OnWait func(within time.Duration, cause error) // see Client.OnWait; Connect may wait too
}

// Client is a connection to a control plane.
type Client struct {
	conn    *bus.Conn
	who     trust.Context // zero for a connection that the caller owns
	timeout time.Duration
	denials denials
	bells   bells

	patience patience

	// OnWrite is called before each call that may change something, with the name of the method, and before each intent
	// is published, with its verb. Its error ends the call. It is set before the first call; nil allows all.
	OnWrite func(ctx context.Context, name string, request proto.Message) error
}

// mayWrite asks OnWrite.
func mayWrite(ctx context.Context, c *Client, name string, request proto.Message) error {
	if c.OnWrite == nil {
		return nil
	}
	return c.OnWrite(ctx, name, request)
}

// Open connects with the context that FindContext finds for name, in the environment of this process.
func Open(ctx context.Context, name string) (*Client, error) {
	found, err := FindContext(name, os.Getenv)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, Options{Context: found})
}

// Connect connects to the bus, and repeats that for a while where the bus stands still or has several servers. Once
// connected, the client reconnects by itself. An error has the code BUS_AWAY, LOGIN_REFUSED, CREDENTIALS_EXPIRED,
// BUS_NOT_TRUSTED or PLAIN_REFUSED.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c := newClient(o.Timeout)
	c.who = o.Context
	c.OnWait(o.OnWait)
	for began := time.Now(); ; {
		tried := time.Now()
		conn, err := dial(ctx, o, func(err error) { c.denials.report(err, notAllowed(o.Context)) })
		if err == nil {
			c.take(conn)
			return c, nil
		}
		// A bus that stands still may go on, and of several servers another one answers. One that refuses is started
		// again, or is not there.
		within := c.patience.within
		if !severalAddresses(o) && time.Since(tried) < connectTimeout {
			within = min(within, comesBack)
		}
		if ctx.Err() != nil || fault.RefusalOf(err).GetCode() != code.BusAway ||
			!c.patience.goesOn(began, within, err) || pause(ctx, mostRetry) != nil {
			return nil, err
		}
	}
}

func newClient(timeout time.Duration) *Client {
	c := &Client{timeout: cmp.Or(timeout, bus.DefaultTimeout)}
	c.patience.within = patienceOf * c.timeout
	return c
}

func (c *Client) take(conn *bus.Conn) {
	c.conn = conn
	conn.OnBack(c.bells.wake)
}

// New returns a client on a connection that the caller owns, for a bus without accounts, as in tests. The bus does not
// report denied calls to it.
func New(conn *bus.Conn, timeout time.Duration) *Client {
	c := newClient(timeout)
	c.take(conn)
	return c
}

// Close disconnects. It also closes the connection that New was called with.
func (c *Client) Close() { c.conn.Close() }

// CertificateUntil returns until when the certificate of the bus, and those above it, are valid for a client; the zero
// time without TLS.
func CertificateUntil(c *Client) time.Time { return c.conn.CertificateUntil() }

// Actor returns the name under which the client acts.
func (c *Client) Actor() string { return c.conn.Name() }

// severalAddresses reports whether the bus of a context has several servers.
func severalAddresses(o Options) bool { return strings.Contains(o.Context.URL, ",") }

// dial connects within a bound, also when a machine on the way drops packets.
func dial(ctx context.Context, o Options, denied func(error)) (*bus.Conn, error) {
	connect, within := o.Dial, connectTimeout
	if connect == nil {
		connect = bus.Dial
	}
	if severalAddresses(o) {
		within = connectSeveral
	}
	type result struct {
		conn *bus.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := connect(bus.Options{
			URL: o.Context.URL, Name: o.Context.Actor, Credentials: o.Context.Credentials,
			TLS: bus.TLSOf(o.Context), Log: o.Log, Denied: denied,
		})
		done <- result{conn, err}
	}()
	abandon := func(err error) (*bus.Conn, error) {
		go func() {
			if r := <-done; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, err
	}
	select {
	case r := <-done:
		if r.err != nil {
			return nil, noBus(o.Context, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		return abandon(context.Cause(ctx))
	case <-time.After(within):
		return abandon(noBus(o.Context, fault.New(fault.Unavailable, "no answer within %s", within)))
	}
}

// noBus explains why there is no connection.
func noBus(who trust.Context, err error) error {
	if fault.RefusalOf(err) != nil { // the bus was not trusted, so there was no login
		return err
	}
	if fault.Is(err, fault.Denied) {
		return loginRefused(who, bus.LoginOf(err), cause(who, err), time.Now())
	}
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{
		Code: code.BusAway, Component: "bus",
		Message: fmt.Sprintf("cannot connect to the bus at %s as %s: %s", who.URL, who.Actor, cause(who, err)),
		Try:     "garrisond health, on the host of garrisond; garrison context list",
	})
}

// cause returns the text of an error without the words around it that name the bus again.
func cause(who trust.Context, err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "connect to the bus at "+who.URL+": "), "nats: ")
}

// notAllowed explains that the bus forbids what was asked.
func notAllowed(who trust.Context) error {
	role := "the role of " + who.Actor
	if who.Role != "" {
		role = fmt.Sprintf("the role %s of %s", who.Role, who.Actor)
	}
	return fault.Refuse(fault.Denied, &apiv1.Refusal{
		Code: code.Denied, Component: "bus",
		Message: role + " does not allow this",
		Try:     "garrison whoami",
	})
}

// pause waits for d, or returns why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
