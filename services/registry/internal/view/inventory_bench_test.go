package view

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
)

var (
	benchServers = flag.Int("servers", 1000, "servers of BenchmarkInventory, which each have every agent")
	benchAgents  = flag.Int("agents", 10, "agents of BenchmarkInventory")
)

// stock folds facts into a view as a replay does: each body is decoded from its bytes.
type stock struct {
	b        *testing.B
	view     *View
	sequence uint64
}

func (s *stock) fact(noun ledger.Noun, key string, bodies ...proto.Message) {
	for _, body := range bodies {
		data, err := proto.Marshal(body)
		if err != nil {
			s.b.Fatal(err)
		}
		decoded := body.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(data, decoded); err != nil {
			s.b.Fatal(err)
		}
		s.sequence++
		at := time.Unix(1_700_000_000, 0).Add(time.Duration(s.sequence) * time.Millisecond)
		f := ledger.Fact{
			Noun: noun, Key: key, Body: decoded, At: at, Sequence: s.sequence, Actor: "bench", Request: key,
		}
		if !s.view.Apply(f) {
			s.b.Fatalf("fact %d does not fit: %s %v", s.sequence, f.Name(), body)
		}
	}
}

func benchID(of ...any) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, of...)).String() }

func benchAgent(n int) string { return fmt.Sprintf("agent-%02d", n) }

func benchImage(agent, version int) *imagev1.Ref {
	id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "image", agent, " ", version))
	return &imagev1.Ref{Id: id.String(), Version: fmt.Sprintf("%d.0.0", version), Digest: append(id[:], id[:]...)}
}

// fill folds the life of a fleet: what may be installed, and each server with its agents, one in fifty of which is not
// at the wanted version and one agent of three has a configuration.
func (s *stock) fill() {
	s.fact(ledger.Application, "base", &applicationv1.Created{Application: &applicationv1.Application{Name: "base"}})
	for n := range 5 {
		name := fmt.Sprint("env-", n)
		s.fact(ledger.Environment, name, &environmentv1.Created{Environment: &environmentv1.Environment{Name: name}})
	}
	for n := range *benchAgents {
		a := &agentv1.Agent{Name: benchAgent(n), Kind: agentv1.Kind_KIND_DAEMON, Application: "base"}
		s.fact(ledger.Agent, a.Name, &agentv1.Created{Agent: a})
	}
	for n := range *benchServers {
		id := benchID("server", n)
		s.fact(ledger.Server, id, &serverv1.Invited{
			Name: fmt.Sprintf("web-%06d", n), Cell: "main", Environment: fmt.Sprint("env-", n%5),
			Labels: map[string]string{"rack": fmt.Sprint("r", n/40), "role": fmt.Sprint("role-", n%7)},
		}, &serverv1.Enrolled{PublicKey: "U" + id, Sysinfo: &serverv1.Sysinfo{
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Hostname: fmt.Sprintf("web-%06d", n),
			Kernel: "6.12.0-3-cloud", Distribution: "Debian GNU/Linux 13", Processors: 16, ProcessorModel: "Xeon",
			MemoryBytes: 64 << 30, Disks: []*serverv1.Disk{{Mount: "/", Kind: "ext4", SizeBytes: 500 << 30}},
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}, ExecutorVersion: "1.0.0",
			BootedAt: timestamppb.New(time.Unix(1_700_000_000+int64(n), 0)),
		}}, &serverv1.Online{BootId: id})
		for agent := range *benchAgents {
			s.instance(n, agent, id)
		}
	}
}

func (s *stock) instance(n, agent int, server string) {
	id, intent, want := benchID("i", n, " ", agent), benchID("intent", n/500, " ", agent), benchImage(agent, 2)
	wanted := &instancev1.Wanted{InstanceId: id, Generation: 1, Image: want, IntentId: intent}
	observed := &instancev1.Observed{InstanceId: id, Image: want, Health: instancev1.Health_HEALTH_GOOD, Generation: 1}
	if agent%3 == 0 {
		values := map[string]string{"log": "info", "port": "9100", "environment": fmt.Sprint("env-", n%5)}
		wanted.Configuration = &instancev1.Configuration{Metadata: values, Digest: metadata.Digest(values)}
		observed.ConfigurationDigest = wanted.Configuration.Digest
	}
	var end proto.Message = &taskv1.Succeeded{Outcome: &taskv1.Outcome{}}
	if (n+7*agent)%50 == 0 {
		end = &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady, Reason: "it was not ready within 10s"}}
		observed.Image = benchImage(agent, 1)
	}
	key, deadline := ledger.Key(server, benchAgent(agent)), timestamppb.New(time.Unix(1_700_000_000, 0))
	s.fact(ledger.Instance, key, wanted)
	s.fact(ledger.Task, benchID("task", n, " ", agent), &taskv1.Queued{
		Verb: taskv1.Verb_VERB_INSTALL, ServerId: server, Agent: benchAgent(agent), InstanceId: id, Generation: 1,
		Attempt: 1, To: want, IntentId: intent, Deadline: deadline,
	}, &taskv1.Assigned{Deadline: deadline}, end)
	s.fact(ledger.Instance, key, observed)
}

// live returns the bytes that are live on the heap.
func live() uint64 {
	for range 2 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkInventory folds a large fleet once, and measures its memory and the pages of lists without the bus:
//
//	go test ./services/registry/internal/view -run '^$' -bench Inventory -servers 100000 -agents 10
func BenchmarkInventory(b *testing.B) {
	before, began := live(), time.Now()
	s := &stock{b: b, view: New()}
	s.fill()
	took := time.Since(began)
	n := *benchServers * *benchAgents
	b.Logf("%d instances, %d facts folded in %.1f s; live %.0f bytes an instance, with its part of a server", n,
		s.sequence, took.Seconds(), float64(live()-before)/float64(n))
	agent := benchAgent(3)
	for name, q := range map[string]InstanceFilter{
		"server":                {Server: benchID("server", *benchServers/2)},
		"image":                 {ImageID: benchImage(4, 2).Id},
		"not-at-wanted":         {NotAtWanted: true},
		"all":                   {},
		"failed-agent-env":      {State: instancev1.State_STATE_FAILED, Agent: agent, Environment: "env-4"},
		"agent-env-version":     {Agent: agent, Environment: "env-4", Version: "1.0.0"},
		"not-at-wanted-one-env": {NotAtWanted: true, Environment: "env-3"},
	} {
		b.Run("page/"+name, func(b *testing.B) { s.pages(b, q) })
	}
	b.Run("explain", s.explain)
	b.Run("check-of-all", s.compare)
	for name, by := range map[string][]string{
		"version": {"version"}, "agent-version-state": {"agent", "version", "state"},
		"role-version": {"label.role", "version"},
	} {
		b.Run("count/"+name, func(b *testing.B) {
			for b.Loop() {
				s.view.CountInstances(InstanceFilter{}, by, 100)
			}
		})
	}
	runtime.KeepAlive(s)
}

// used returns the processor time of this thread: on a busy machine a clock measures the others.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	const thisThread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thisThread, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// times are the processor times of what was repeated.
type times struct {
	b    *testing.B
	took []time.Duration
}

func (t *times) add(do func()) {
	began := used(t.b)
	do()
	t.took = append(t.took, used(t.b)-began)
}

func (t *times) report() {
	slices.Sort(t.took)
	t.b.ReportMetric(float64(t.took[len(t.took)/2].Microseconds()), "p50-cpu-µs")
	t.b.ReportMetric(float64(t.took[len(t.took)*99/100].Microseconds()), "p99-cpu-µs")
}

// pages reads pages of 100 rows through a list, encodes them, and reports the processor time of the slowest of a
// hundred.
func (s *stock) pages(b *testing.B, q InstanceFilter) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	after, rows := "", 0
	times := &times{b: b}
	for b.Loop() {
		page := 0
		times.add(func() {
			for key, i := range s.view.Instances(q, after) {
				encode(b, i)
				if after, page = key, page+1; page == 100 {
					break
				}
			}
		})
		if rows += page; page < 100 {
			after = ""
		}
	}
	times.report()
	b.ReportMetric(float64(rows)/float64(len(times.took)), "rows/page")
}
