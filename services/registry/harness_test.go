package registry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// secretKey is the key of secrets of every site.
var secretKey = secret.NewKeyText()

// signer stands in for the keys of an account; its signatures are readable.
type signer struct{ fails *atomic.Bool }

func (signer) Server(key, id, cell string, _ time.Time) (string, error) {
	if key == "" || key == "not-a-key" {
		return "", fault.New(fault.Invalid, "public key %q is not a user's key", key)
	}
	return "jwt of " + key + " for " + id + " in " + cell, nil
}

func (signer) Guest(id, _ string, _ time.Time) (trust.Guest, error) {
	return trust.Guest{PublicKey: "UGUEST", JWT: "guest jwt of " + id, Seed: []byte("SUGUEST")}, nil
}

func (signer) TombstoneKey() string { return "tombstone key" }

func (s signer) Tombstone(id, cell string, at time.Time) (*serverv1.Tombstone, error) {
	if s.fails.Load() {
		return nil, fault.New(fault.Unavailable, "the tombstone key cannot be read")
	}
	return &serverv1.Tombstone{
		ServerId:  id,
		Cell:      cell,
		SignedAt:  timestamppb.New(at),
		Signature: []byte("signed"),
	}, nil
}

// site is a bus with a registry, and the clients that talk to it.
type site struct {
	t        *testing.T
	bus      *bustest.Bus
	r        *Registry
	ops      *bus.Conn
	core     *bus.Writer   // writes the facts of the other services
	stop     func()        // stops the first registry
	beats    time.Duration // how often servers are expected to beat
	budget   uint64        // of each server; 0 means the default
	limits   budget.Limits // of users
	ca       []byte        // the CAs of the bus; none means those of the operating system
	unsigned atomic.Bool   // the tombstone key cannot be read
	skew     atomic.Int64  // how far ahead the registries' clocks are, in nanoseconds

	metrics *metrics.Set // of the next registry; may be nil

	mu      sync.Mutex
	running []*Registry
	killed  []*Registry // whose connections were cut
}

func start(t *testing.T) *site {
	t.Helper()
	return startBeating(t, 100*time.Millisecond)
}

// startBeating starts a site whose servers are expected to beat at an interval.
func startBeating(t *testing.T, every time.Duration) *site {
	t.Helper()
	b := bustest.Start(t)
	s := &site{t: t, bus: b, ops: b.Dial(t, "alice"), beats: every}
	s.core = b.Writer(t, b.Dial(t, "core"))
	s.r, s.stop = s.registry()
	return s
}

// registry runs one more registry on the site's bus.
func (s *site) registry() (*Registry, func()) {
	s.t.Helper()
	key, err := secret.ParseKey(secretKey)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := New(Config{
		Conn: s.bus.Dial(s.t, ledger.Registry), Signer: signer{&s.unsigned}, JoinURL: "nats://bus:4222",
		CA:           func() ([]byte, error) { return s.ca, nil },
		BeatInterval: s.beats, ServerBudget: s.budget, UserBudgets: s.limits,
		ImageKeys: []string{"image key"}, BlockAfter: DefaultBlockAfter,
		Log:     zerolog.Nop(),
		Metrics: s.metrics,
		Secrets: key, Lobby: true,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.beats < time.Minute {
		r.presence.Returns = 0 // no bus is lost in these tests, and absence counts soon
	}
	stop := s.run(r)
	bustest.Answers(s.t, r.follower.Serving())
	return r, stop
}

// run runs a registry until the test ends or stop is called.
func (s *site) run(r *Registry) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, r)
	end := bustest.Go(s.t, func(ctx context.Context) error {
		err := r.Run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if slices.Contains(s.killed, r) {
			return nil // it may end with any error
		}
		return err
	})
	return func() {
		s.mu.Lock()
		s.running = slices.DeleteFunc(s.running, func(other *Registry) bool { return other == r })
		s.mu.Unlock()
		end()
	}
}

// kill cuts a registry's connection amid its work, as the death of its process does: what it did not publish before
// never reaches the bus, and what it took is not acknowledged. Its stop must be called next.
func (s *site) kill(r *Registry) {
	s.mu.Lock()
	s.killed = append(s.killed, r)
	s.mu.Unlock()
	r.cfg.Conn.Close()
}

// caughtUp waits until every registry that runs has folded the ledger up to its present end: any of them may answer,
// and one that lags behind answers from before.
func (s *site) caughtUp(ctx context.Context) error {
	s.mu.Lock()
	running := slices.Clone(s.running)
	s.mu.Unlock()
	end, err := s.ops.Stream(ctx, topology.Ledger)
	if err != nil {
		return err
	}
	for _, r := range running {
		if err := r.follower.Wait(ctx, end.LastSequence); err != nil {
			return err
		}
	}
	return nil
}

var methods = registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").Methods()

// ask calls a method. A method that reads answers with everything that the ledger holds when it is asked.
func ask[R proto.Message](s *site, method protoreflect.Name, q proto.Message) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := methods.ByName(method)
	if bus.AccessOf(d) == "read" {
		if err := s.caughtUp(ctx); err != nil {
			var zero R
			return zero, err
		}
	}
	return bus.Call[R](ctx, s.ops, ledger.Registry, d, q)
}

func must[R proto.Message](s *site, method protoreflect.Name, q proto.Message) R {
	s.t.Helper()
	r, err := ask[R](s, method, q)
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return r
}

// put creates or changes a record.
func (s *site) put(q *registryv1.PutRecordRequest) *registryv1.PutRecordResponse {
	s.t.Helper()
	return must[*registryv1.PutRecordResponse](s, "PutRecord", q)
}

// agent creates an agent of kind daemon.
func (s *site) agent(name string, dependencies ...string) {
	s.t.Helper()
	s.put(record.Create(&agentv1.Agent{Name: name, Kind: agentv1.Kind_KIND_DAEMON, Dependencies: dependencies}))
}

func (s *site) channel(name string, byDefault bool) {
	s.t.Helper()
	s.append(fact(ledger.Channel, name, &channelv1.Created{Default: byDefault}))
}

// image creates an active image for linux/amd64 and adds it to a channel.
func (s *site) image(agent, version, channel string, change ...func(*imagev1.Manifest)) string {
	s.t.Helper()
	id, facts := imageFacts(agent, version, channel, change...)
	s.append(facts...)
	return id
}

// imageFacts returns the id of an image, and the facts that make it active in a channel.
func imageFacts(agent, version, channel string, change ...func(*imagev1.Manifest)) (string, []ledger.Draft) {
	m := &imagev1.Manifest{
		Id: ident.From("image", agent, version,
			channel), Agent: agent, Version: version, Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Blob: &imagev1.Blob{Digest: []byte(agent + version)},
	}
	for _, c := range change {
		c(m)
	}
	return m.Id, []ledger.Draft{
		fact(ledger.Image, m.Id, &imagev1.Created{Manifest: m}),
		fact(ledger.Image, m.Id, &imagev1.Filled{}),
		fact(ledger.Image, m.Id, &imagev1.Activated{}),
		fact(ledger.Channel, channel, &channelv1.ImageAdded{ImageId: m.Id}),
	}
}

func (s *site) invite(name string) trust.Token {
	s.t.Helper()
	r := must[*registryv1.InviteServerResponse](s, "InviteServer", &registryv1.InviteServerRequest{Name: name})
	return s.tokenOf(r)
}

func (s *site) enrol(token trust.Token, key string) (*registryv1.EnrolResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.ServerID})
	return bus.Ask[*registryv1.EnrolResponse](ctx, s.ops, subject, &registryv1.EnrolRequest{
		ServerId: token.ServerID, Secret: token.Secret, PublicKey: key,
		Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
	})
}

// server invites and enrols a server, and returns its id.
func (s *site) server(name string) string {
	s.t.Helper()
	token := s.invite(name)
	if _, err := s.enrol(token, "key of "+name); err != nil {
		s.t.Fatalf("enrol %s: %v", name, err)
	}
	return token.ServerID
}

// report publishes a report of a server of the cell main.
func (s *site) report(kind string, r *reportv1.Report) {
	s.t.Helper()
	s.reportOn(topology.ServerAddress{Cell: "main", Server: r.ServerId}, kind, r)
}

func (s *site) reportOn(a topology.ServerAddress, kind string, r *reportv1.Report) {
	s.t.Helper()
	data, err := proto.Marshal(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.publishRaw(bus.Durable{Subject: topology.ReportSubject(a, kind), Data: data})
}

func (s *site) beat(server, boot string) {
	s.t.Helper()
	if err := s.oneBeat(server, boot); err != nil {
		s.t.Fatal(err)
	}
}

// beating beats until the test ends, more often than the interval.
func (s *site) beating(server, boot string) {
	bustest.Go(s.t, func(ctx context.Context) error {
		for {
			if err := s.oneBeat(server, boot); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

func (s *site) oneBeat(server, boot string) error {
	data, err := proto.Marshal(&reportv1.Beat{ServerId: server, BootId: boot})
	if err != nil {
		return err
	}
	return s.ops.Publish(topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: server}), data)
}

// facts returns the ledger's facts about a key.
func (s *site) facts(noun ledger.Noun, key string) []ledger.Fact {
	s.t.Helper()
	msgs, err := s.ops.DirectGetFrom(context.Background(), topology.Ledger, ledger.KeySubject(noun, key), 1, 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []ledger.Fact
	for _, m := range msgs {
		f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func names(facts []ledger.Fact) []string {
	var out []string
	for _, f := range facts {
		out = append(out, f.Name())
	}
	return out
}

// codeOf returns the code of the refusal that an error carries.
func codeOf(err error) string {
	if err == nil {
		return "none"
	}
	if r := fault.RefusalOf(err); r != nil {
		return r.Code
	}
	return errors.Unwrap(err).Error()
}

// code calls a method and returns the code of its refusal.
func (s *site) code(method string, q proto.Message) string {
	s.t.Helper()
	d := methods.ByName(protoreflect.Name(method))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := bus.Call[*emptypb.Empty](ctx, s.ops, ledger.Registry, d, q) // an answer would decode as an empty one
	return codeOf(err)
}

func (s *site) tokenOf(r *registryv1.InviteServerResponse) trust.Token {
	s.t.Helper()
	token, err := trust.ParseToken(r.Token)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}
