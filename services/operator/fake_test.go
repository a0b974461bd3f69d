package operator

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// noon is the present of every test.

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

const (
	web1 = "01900000-0000-7000-8000-000000000001"
	web2 = "01900000-0000-7000-8000-000000000002"
)

// fakes answer in place of the services, over a real bus. What they answer about an

// agent goes by its name: ghost has no image, flaky is undone on one server, broken

// fails on both, slow never ends, many are more than are named.

type fakes struct {
	mu      sync.Mutex
	intents map[string]*intentv1.Record
	agents  []*agentv1.Agent
	apps    []*applicationv1.Application
	envs    []*environmentv1.Environment
	images  map[string]*imagev1.Image
	chunks  map[string][]byte
	cleaned *serverv1.CleanUp // of gone-1
	rules   []*labelrulev1.LabelRule
	asked   map[string]int // how often each method was called
	viewer  bool           // who asks may read no output

	restored *accessv1.Restored // what waits for a confirmation
	losses   []*registryv1.ServerLoss
	sources  []*sourcev1.Source
}

func startFakes(t testing.TB, b *bustest.Bus) *fakes {
	f := &fakes{
		asked:   map[string]int{},
		intents: map[string]*intentv1.Record{},
		images:  map[string]*imagev1.Image{},
		chunks:  map[string][]byte{},
	}
	f.registry(t, b.Dial(t, ledger.Registry))
	f.catalog(t, b.Dial(t, ledger.Catalog))
	f.access(t, b.Dial(t, ledger.Access))
	f.dispatcher(t, b.Dial(t, ledger.Dispatcher))
	writeLedger(t, b)
	return f
}

// handle registers an answer, with the lock held while it is made.

func handle[Q, R proto.Message](t testing.TB, f *fakes, s *bus.Service, method string, answer func(Q) (R, error)) {
	t.Helper()
	changes := !readsOnly.MatchString(method)
	err := bus.Handle(s, method, func(ctx context.Context, _ bus.Caller, q Q) (R, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked[method]++
		if bus.IsDryRun(ctx) && changes && !f.has(q) {
			return dryAnswer[R](q)
		}
		return answer(q)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func service(t testing.TB, f *fakes, c *bus.Conn, d protoreflect.ServiceDescriptor, version string) *bus.Service {
	s, err := c.NewService(c.Name(), version, d)
	if err != nil {
		t.Fatal(err)
	}
	process := func(id string) *apiv1.AboutResponse {
		return &apiv1.AboutResponse{
			Service:   c.Name(),
			Version:   version,
			Position:  42,
			StartedAt: ago(time.Hour),
			ProcessId: id,
		}
	}
	handle(t, f, s, "About", func(*apiv1.AboutRequest) (*apiv1.AboutResponse, error) { return process("p1"), nil })
	if c.Name() == ledger.Catalog {
		return s // it is older, and cannot count its processes
	}
	handle(t, f, s, "ListProcesses", func(*apiv1.ListProcessesRequest) (*apiv1.ListProcessesResponse, error) {
		all := []*apiv1.AboutResponse{process("p1")}
		if c.Name() == ledger.Registry {
			all = append(all, process("p2"))
		}
		return &apiv1.ListProcessesResponse{Processes: all}, nil
	})
	return s
}

// leaving are servers that are dying or dead; lists do not show them.

// foundServer is a server on which there is what no instance explains.

func unknown(code, what, name, near string) error {
	return fault.Refuse(fault.NotFound,
		&apiv1.Refusal{Code: code, Message: "no " + what + " \"" + name + "\" (2 searched)", Nearest: near})
}

// groups answers about applications and environments, and keeps what is created and changed.

// hear decides an intent as its agent's name says.

// writeLedger writes a few facts.

func writeLedger(t testing.TB, b *bustest.Bus) {
	w := b.Writer(t, b.Dial(t, "writer"))
	fact := func(n ledger.Noun, key, source, actor string, body proto.Message) ledger.Draft {
		return ledger.Free(ledger.Fact{
			Noun:    n,
			Key:     key,
			Body:    body,
			ID:      ident.New(),
			At:      noon,
			Source:  source,
			Actor:   actor,
			Request: web2,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := w.Append(
		ctx,
		fact(ledger.Agent, "beacon", ledger.Registry, "ann", &agentv1.Created{
			Agent: &agentv1.Agent{Name: "beacon", Kind: agentv1.Kind_KIND_DAEMON, Description: "says its version"},
		}),
		fact(ledger.Server, web1, ledger.Registry, ledger.Registry, &serverv1.Online{BootId: "b1"}),
		fact(ledger.Instance, ledger.Key(web1, "beacon"), ledger.Registry, "ann",
			&instancev1.Wanted{Generation: 1, Image: &imagev1.Ref{Version: "1.0.0"}}),
		fact(ledger.Task, "65d947de-86d0-58e2-bb0a-b7dc3d59300f", ledger.Dispatcher, ledger.Dispatcher,
			&taskv1.Queued{Verb: taskv1.Verb_VERB_INSTALL, Agent: "beacon", To: &imagev1.Ref{Version: "1.0.0"}}),
	)
	if err != nil {
		t.Fatal(err)
	}
}
