package operator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
}

func startFakes(t testing.TB, b *bustest.Bus) {
	f := &fakes{intents: map[string]*intentv1.Record{}, images: map[string]*imagev1.Image{}, chunks: map[string][]byte{}}
	f.registry(t, b.Dial(t, ledger.Registry))
	f.catalog(t, b.Dial(t, ledger.Catalog))
	f.dispatcher(t, b.Dial(t, ledger.Dispatcher))
	writeLedger(t, b)
}

// handle registers an answer, with the lock held while it is made.
func handle[Q, R proto.Message](t testing.TB, f *fakes, s *bus.Service, method string, answer func(Q) (R, error)) {
	t.Helper()
	err := bus.Handle(s, method, func(_ context.Context, _ bus.Caller, q Q) (R, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
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
		return &apiv1.AboutResponse{Service: c.Name(), Version: version, Position: 42, StartedAt: ago(time.Hour), ProcessId: id}
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

func servers() []*serverv1.Server {
	linux := &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Hostname: "web-1", ExecutorVersion: "v1.0.0"}
	return []*serverv1.Server{
		{Id: web1, Name: "web-1", Cell: "main", Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE, Since: ago(5 * time.Minute),
			Labels: map[string]string{"rack": "a"}, Environment: "prod", Sysinfo: linux},
		{Id: web2, Name: "web-2", Cell: "main", Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_OFFLINE, Since: ago(3 * time.Hour),
			Reason: "no beat for 15s", Labels: map[string]string{"rack": "b"}, Sysinfo: linux},
	}
}

// leaving are servers that are dying or dead; lists do not show them.
func leaving() []*serverv1.Server {
	return []*serverv1.Server{
		{Id: ident.From("old-1"), Name: "old-1", Life: serverv1.Life_LIFE_DYING, Presence: serverv1.Presence_PRESENCE_ONLINE, Since: ago(time.Hour), Duties: []*serverv1.Duty{
			{Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: "cron", TaskId: web1, Since: ago(time.Minute), Reason: "it did not end"},
			{Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: "web", Since: ago(time.Minute)},
		}},
		{Id: ident.From("old-2"), Name: "old-2", Life: serverv1.Life_LIFE_DYING, Presence: serverv1.Presence_PRESENCE_OFFLINE, Since: ago(time.Hour), Duties: []*serverv1.Duty{
			{Kind: serverv1.DutyKind_DUTY_KIND_PRESENCE, Since: ago(time.Hour), Reason: "no beat arrives"},
		}},
		{Id: ident.From("gone-1"), Name: "gone-1", Life: serverv1.Life_LIFE_DEAD, Ownership: serverv1.Ownership_OWNERSHIP_MANUAL, Since: ago(time.Hour), Tombstone: tombstone("gone-1"), Duties: []*serverv1.Duty{
			{Kind: serverv1.DutyKind_DUTY_KIND_RECEIPT, Since: ago(time.Hour)},
		}},
		{Id: ident.From("old-3"), Name: "old-3", Life: serverv1.Life_LIFE_DYING, Since: ago(time.Hour),
			Presence: serverv1.Presence_PRESENCE_ONLINE, Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_DEATH, Since: ago(time.Minute), Reason: "this registry has no signing keys"},
			}},
		{Id: ident.From("old-4"), Name: "old-4", Life: serverv1.Life_LIFE_DYING, Since: ago(time.Hour),
			Presence: serverv1.Presence_PRESENCE_ONLINE, Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: "cron", TaskId: web1, Since: ago(time.Minute), Ended: true,
					Reason: "the last change was cancelled"},
			}},
		{Id: ident.From("gone-3"), Name: "gone-3", Life: serverv1.Life_LIFE_DEAD, Since: ago(time.Hour),
			Ownership: serverv1.Ownership_OWNERSHIP_MANUAL, UninstalledAt: ago(time.Minute), Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_PATHS, Since: ago(time.Hour),
					Reason: "2 paths of Garrison's own could not be deleted"},
				{Kind: serverv1.DutyKind_DUTY_KIND_FOUND, Since: ago(time.Hour),
					Reason: "unmanaged at its death: cron 1.0.0 (link agents/cron)"},
			}},
		{Id: ident.From("gone-2"), Name: "gone-2", Life: serverv1.Life_LIFE_DEAD, Ownership: serverv1.Ownership_OWNERSHIP_PROVISIONED, Since: ago(time.Hour)},
	}
}

// foundServer is a server on which there is what no instance explains.
func foundServer() *serverv1.Server {
	since := ago(4 * time.Minute)
	return &serverv1.Server{
		Id: "01900000-0000-7000-8000-000000000003", Name: "web-3", Cell: "main", Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE, Since: ago(time.Hour),
		FoundAt: since, FoundMore: 3, Found: []*serverv1.FoundAgent{
			{Trace: serverv1.Trace_TRACE_LINK, Path: "agents/E_odd\x1b[31m/current", Since: since},
			{Agent: "beacon", Trace: serverv1.Trace_TRACE_LINK, Version: "0.9.0", Path: "agents/beacon/current", OtherRoot: "/srv/other", Since: since},
			{Agent: "cron", Trace: serverv1.Trace_TRACE_PROCESS, Version: "1.0.0", Digest: []byte{0xab, 0xcd, 0xef, 1, 2}, Path: "images/abcdef0102", OtherServerId: web1, Since: since},
			{Agent: "cron", Trace: serverv1.Trace_TRACE_UNIT, Path: "garrison-0-cron-1.service; reboot", Since: since},
			{Agent: "web", Trace: serverv1.Trace_TRACE_INSTANCE, Version: "2.0.0", Path: web2, Since: ago(time.Minute)},
		},
	}
}

func unknown(code, what, name, near string) error {
	return fault.Refuse(fault.NotFound, &apiv1.Refusal{Code: code, Message: "no " + what + " \"" + name + "\" (2 searched)", Nearest: near})
}

func (f *fakes) registry(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, services[ledger.Registry], "v1.0.0")
	handle(t, f, s, "ListServers", func(q *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
		all := servers()
		if q.GetFound() {
			return &registryv1.ListServersResponse{Servers: []*serverv1.Server{foundServer()}}, nil
		}
		if q.GetPage().GetCursor() == "second" {
			return &registryv1.ListServersResponse{Servers: all[1:]}, nil
		}
		return &registryv1.ListServersResponse{Servers: all[:1], NextCursor: "second"}, nil
	})
	handle(t, f, s, "GetServer", func(q *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		for _, found := range append(append(servers(), leaving()...), foundServer()) {
			if found.Id == q.Server || found.Name == q.Server {
				return &registryv1.GetServerResponse{Server: f.withCleanUp(found)}, nil
			}
		}
		return nil, unknown("UNKNOWN_SERVER", "server", q.Server, "web-1")
	})
	handle(t, f, s, "ForgetServer", func(q *registryv1.ForgetServerRequest) (*registryv1.ForgetServerResponse, error) {
		for _, found := range leaving() {
			if found.Name == q.Server && q.Leak {
				return &registryv1.ForgetServerResponse{ServerId: found.Id, Leaks: found.Duties}, nil
			}
		}
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "LEAKED", Message: "something may be left", Try: "garrison server clean " + q.Server,
		})
	})
	handle(t, f, s, "InviteServer", func(q *registryv1.InviteServerRequest) (*registryv1.InviteServerResponse, error) {
		return &registryv1.InviteServerResponse{ServerId: web1, Token: "garrison-1.secret-of-" + q.GetName() + "-" + pairs(q.GetLabels()), ExpiresAt: timestamppb.New(noon.Add(q.GetValidFor().AsDuration()))}, nil
	})
	handle(t, f, s, "ListInstances", func(q *registryv1.ListInstancesRequest) (*registryv1.ListInstancesResponse, error) {
		rows := slices.DeleteFunc(instances(q.GetAgent()), func(r *registryv1.InstanceRow) bool {
			return q.GetServer() != "" && q.GetServer() != r.GetInstance().GetServerId() && q.GetServer() != r.GetServerName()
		})
		return &registryv1.ListInstancesResponse{Instances: rows}, nil
	})
	handle(t, f, s, "ListAgents", func(*registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
		return &registryv1.ListAgentsResponse{Agents: f.agents}, nil
	})
	handle(t, f, s, "ChangeAgent", func(q *registryv1.ChangeAgentRequest) (*registryv1.ChangeAgentResponse, error) {
		return &registryv1.ChangeAgentResponse{Agent: q.GetAgent()}, nil
	})
	f.groups(t, s)
	f.cleanUps(t, s)
	f.changes(t, s)
	f.plans(t, s)
	handle(t, f, s, "CreateAgent", func(q *registryv1.CreateAgentRequest) (*registryv1.CreateAgentResponse, error) {
		if q.GetAgent().GetName() == "taken" {
			return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{Code: "EXISTS", Message: "there is an agent \"taken\""})
		}
		if len(q.GetAgent().GetMetadata()) > 0 { // others are not remembered: there are scripts about an empty list
			f.agents = append(f.agents, q.GetAgent())
		}
		return &registryv1.CreateAgentResponse{Agent: q.GetAgent()}, nil
	})
	handle(t, f, s, "DeleteAgent", func(*registryv1.DeleteAgentRequest) (*registryv1.DeleteAgentResponse, error) {
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{Code: "DENIED", Message: "not you"})
	})
	handle(t, f, s, "GetIntent", func(q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
		if r := f.intents[q.GetIntentId()]; r != nil {
			return &registryv1.GetIntentResponse{Intent: r}, nil
		}
		return nil, unknown("UNKNOWN_INTENT", "intent", q.GetIntentId(), "")
	})
	f.intentCalls(t, s)
	stop, err := c.Subscribe("garrison.intent.>", f.hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// groups answers about applications and environments, and keeps what is created and changed.
func (f *fakes) groups(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListApplications", func(*registryv1.ListApplicationsRequest) (*registryv1.ListApplicationsResponse, error) {
		return &registryv1.ListApplicationsResponse{Applications: f.apps}, nil
	})
	handle(t, f, s, "CreateApplication", func(q *registryv1.CreateApplicationRequest) (*registryv1.CreateApplicationResponse, error) {
		f.apps = append(f.apps, q.GetApplication())
		return &registryv1.CreateApplicationResponse{Application: q.GetApplication()}, nil
	})
	handle(t, f, s, "ChangeApplication", func(q *registryv1.ChangeApplicationRequest) (*registryv1.ChangeApplicationResponse, error) {
		f.apps = []*applicationv1.Application{q.GetApplication()}
		return &registryv1.ChangeApplicationResponse{Application: q.GetApplication()}, nil
	})
	handle(t, f, s, "ListEnvironments", func(*registryv1.ListEnvironmentsRequest) (*registryv1.ListEnvironmentsResponse, error) {
		return &registryv1.ListEnvironmentsResponse{Environments: f.envs}, nil
	})
	handle(t, f, s, "CreateEnvironment", func(q *registryv1.CreateEnvironmentRequest) (*registryv1.CreateEnvironmentResponse, error) {
		f.envs = append(f.envs, q.GetEnvironment())
		return &registryv1.CreateEnvironmentResponse{Environment: q.GetEnvironment()}, nil
	})
	handle(t, f, s, "ChangeEnvironment", func(q *registryv1.ChangeEnvironmentRequest) (*registryv1.ChangeEnvironmentResponse, error) {
		f.envs = []*environmentv1.Environment{q.GetEnvironment()}
		return &registryv1.ChangeEnvironmentResponse{Environment: q.GetEnvironment()}, nil
	})
}

func instances(agent string) []*registryv1.InstanceRow {
	if agent == "" {
		agent = "beacon"
	}
	row := func(server, name string, p serverv1.Presence, s instancev1.State, reason string) *registryv1.InstanceRow {
		return &registryv1.InstanceRow{ServerName: name, Presence: p, Instance: &instancev1.Instance{
			Id: ident.From(server, agent), ServerId: server, Agent: agent, Wanted: &imagev1.Ref{Version: "1.0.0"}, Observed: &imagev1.Ref{Version: "1.0.0"},
			Configuration: &instancev1.Configuration{Own: map[string]string{"level": "info"}, Metadata: map[string]string{"level": "info", "region": "eu"}, Digest: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}},
			State:         s, Health: instancev1.Health_HEALTH_GOOD, Since: ago(time.Minute), Reason: reason,
		}}
	}
	rows := []*registryv1.InstanceRow{
		row(web1, "web-1", serverv1.Presence_PRESENCE_ONLINE, instancev1.State_STATE_CONVERGED, ""),
		row(web2, "web-2", serverv1.Presence_PRESENCE_OFFLINE, instancev1.State_STATE_PENDING, "waits for its server"),
	}
	if agent == "flaky" { // 2.0.0 was undone on one server, and it has no values of its own there
		undone := rows[1].Instance
		undone.Wanted, undone.State, undone.Configuration = &imagev1.Ref{Id: web2, Version: "2.0.0"}, instancev1.State_STATE_FAILED, nil
	}
	return rows
}

// hear decides an intent as its agent's name says.
func (f *fakes) hear(m bus.Message) {
	address, err := topology.ParseIntentSubject(m.Subject)
	i := &intentv1.Intent{}
	if err != nil || bus.Unmarshal(m, i) != nil {
		return
	}
	r := &intentv1.Record{Id: address.ID, Actor: address.Actor, Intent: i, State: intentv1.State_STATE_ACCEPTED, DecidedAt: ago(0), ServerIds: []string{web1, web2}, Changed: 2}
	switch agentOf(i) {
	case "ghost":
		r = &intentv1.Record{Id: address.ID, Actor: address.Actor, Intent: i, State: intentv1.State_STATE_REFUSED, Refusal: &apiv1.Refusal{
			Code: "NO_MATCH", Component: ledger.Registry, Message: `no image of agent "ghost" for linux/amd64 in channel release (7 images searched)`, Try: "garrison image list ghost"}}
	case "many":
		r.Changed = 1200 // more than it names
	case "huge":
		r.Changed = 12_000 // more than there are tasks kept
	case "stale":
		f.mu.Lock()
		f.intents["stale"] = r
		f.mu.Unlock()
		r = &intentv1.Record{Id: address.ID, Actor: address.Actor, Intent: i, State: intentv1.State_STATE_REFUSED, Refusal: &apiv1.Refusal{
			Code: "PLAN_STALE", Component: ledger.Registry, Message: "the plan does not hold any more"}}
	case "odd":
		r.ServerIds, r.Changed, r.LeftOut = []string{web1}, 1, 1
		r.Reasons = []*intentv1.Reason{{
			Code: "WRONG_PLATFORM", Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: 1, ServerIds: []string{web2},
			First: &apiv1.Refusal{Code: "WRONG_PLATFORM", Message: "no image for linux/arm64"},
		}}
	case "same":
		r.ServerIds, r.Changed, r.Already = nil, 0, 2
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intents[address.ID] = r
}

func agentOf(i *intentv1.Intent) string {
	for _, name := range []string{i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent(), i.GetRemove().GetAgent(), i.GetConfigure().GetAgent()} {
		if name != "" {
			return name
		}
	}
	return ""
}

func (f *fakes) dispatcher(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, services[ledger.Dispatcher], "v1.1.0")
	handle(t, f, s, "ListTasks", func(q *dispatcherv1.ListTasksRequest) (*dispatcherv1.ListTasksResponse, error) {
		r := f.intents[q.GetIntentId()]
		if q.GetAgent() == "slow" {
			slow := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "slow"}}}
			return &dispatcherv1.ListTasksResponse{Tasks: tasksOf(&intentv1.Record{Intent: slow})[1:], KeptEnded: 10_000}, nil
		}
		if q.GetServerId() == web2 { // what flaky left there
			return &dispatcherv1.ListTasksResponse{Tasks: tasksOf(&intentv1.Record{Intent: &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "flaky"}}}})[1:]}, nil
		}
		if r == nil {
			return &dispatcherv1.ListTasksResponse{}, nil
		}
		return &dispatcherv1.ListTasksResponse{Tasks: tasksOf(r)}, nil
	})
	handle(t, f, s, "GetIntentProgress", func(q *dispatcherv1.GetIntentProgressRequest) (*dispatcherv1.GetIntentProgressResponse, error) {
		r := f.intents[q.GetIntentId()]
		if r == nil {
			return nil, unknown("NOT_COUNTED", "intent", q.GetIntentId(), "")
		}
		return progressOf(r), nil
	})
	handle(t, f, s, "GetTask", func(q *dispatcherv1.GetTaskRequest) (*dispatcherv1.GetTaskResponse, error) {
		for _, r := range f.intents {
			for _, task := range tasksOf(r) {
				if strings.HasPrefix(task.GetId(), q.GetTask()) {
					return &dispatcherv1.GetTaskResponse{Task: task}, nil
				}
			}
		}
		return nil, unknown("UNKNOWN_TASK", "task", q.GetTask(), "")
	})
}

func (f *fakes) catalog(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, services[ledger.Catalog], "v1.0.0")
	handle(t, f, s, "ListChannels", func(*catalogv1.ListChannelsRequest) (*catalogv1.ListChannelsResponse, error) {
		return &catalogv1.ListChannelsResponse{Channels: []*channelv1.Channel{{Name: "release", Default: true}}}, nil
	})
	handle(t, f, s, "ListImages", func(*catalogv1.ListImagesRequest) (*catalogv1.ListImagesResponse, error) {
		return &catalogv1.ListImagesResponse{}, nil
	})
	handle(t, f, s, "CreateImage", func(q *catalogv1.CreateImageRequest) (*catalogv1.CreateImageResponse, error) {
		f.images[q.GetManifest().GetId()] = &imagev1.Image{Manifest: q.GetManifest(), State: imagev1.State_STATE_UNACTIVATED, Since: ago(0)}
		return &catalogv1.CreateImageResponse{Image: f.images[q.GetManifest().GetId()]}, nil
	})
	handle(t, f, s, "MissingChunks", func(q *catalogv1.MissingChunksRequest) (*catalogv1.MissingChunksResponse, error) {
		r := &catalogv1.MissingChunksResponse{}
		for n := range f.images[q.GetImageId()].GetManifest().GetBlob().GetChunkDigests() {
			if f.chunks[chunkKey(q.GetImageId(), uint32(n))] == nil {
				r.Chunks = append(r.Chunks, uint32(n))
			}
		}
		return r, nil
	})
	handle(t, f, s, "PutChunk", func(q *catalogv1.PutChunkRequest) (*catalogv1.PutChunkResponse, error) {
		f.chunks[chunkKey(q.GetImageId(), q.GetChunk())] = q.GetContent()
		return &catalogv1.PutChunkResponse{}, nil
	})
	handle(t, f, s, "GetChunk", func(q *catalogv1.GetChunkRequest) (*catalogv1.GetChunkResponse, error) {
		return &catalogv1.GetChunkResponse{Content: f.chunks[chunkKey(q.GetImageId(), q.GetChunk())]}, nil
	})
	handle(t, f, s, "GetImage", func(q *catalogv1.GetImageRequest) (*catalogv1.GetImageResponse, error) {
		for id, i := range f.images {
			if id == q.GetImage() || imageName(i) == q.GetImage() {
				return &catalogv1.GetImageResponse{Image: i}, nil
			}
		}
		return nil, unknown("UNKNOWN_IMAGE", "image", q.GetImage(), "")
	})
	handle(t, f, s, "ActivateImage", func(q *catalogv1.ActivateImageRequest) (*catalogv1.ActivateImageResponse, error) {
		i := f.images[q.GetImage()]
		i.State, i.Filled, i.Channels = imagev1.State_STATE_ACTIVE, true, []string{"release"}
		return &catalogv1.ActivateImageResponse{Image: i}, nil
	})
}

func chunkKey(id string, n uint32) string { return id + "." + string(rune('a'+n)) }

// writeLedger writes a few facts.
func writeLedger(t testing.TB, b *bustest.Bus) {
	w := b.Writer(t, b.Dial(t, "writer"))
	fact := func(n ledger.Noun, key, source, actor string, body proto.Message) ledger.Draft {
		return ledger.Free(ledger.Fact{Noun: n, Key: key, Body: body, ID: ident.New(), At: noon, Source: source, Actor: actor, Request: web2})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := w.Append(ctx,
		fact(ledger.Agent, "beacon", ledger.Registry, "ann", &agentv1.Created{Agent: &agentv1.Agent{Name: "beacon", Kind: agentv1.Kind_KIND_DAEMON, Description: "says its version"}}),
		fact(ledger.Server, web1, ledger.Registry, ledger.Registry, &serverv1.Online{BootId: "b1"}),
		fact(ledger.Instance, ledger.Key(web1, "beacon"), ledger.Registry, "ann", &instancev1.Wanted{Generation: 1, Image: &imagev1.Ref{Version: "1.0.0"}}),
		fact(ledger.Task, "65d947de-86d0-58e2-bb0a-b7dc3d59300f", ledger.Dispatcher, ledger.Dispatcher, &taskv1.Queued{Verb: taskv1.Verb_VERB_INSTALL, Agent: "beacon", To: &imagev1.Ref{Version: "1.0.0"}}))
	if err != nil {
		t.Fatal(err)
	}
}
