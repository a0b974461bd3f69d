package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The shape of the fleet in the ledger.
const (
	environments   = 5
	rackServers    = 40  // servers of a rack
	blockServers   = 500 // servers that one intent installs an agent on
	configuredEach = 3   // one in that many agents has a configuration
	brokenEach     = 50  // one in that many instances is not at the version that is wanted
)

// book writes the ledger of a fleet that was enrolled and installed, in batches.
type book struct {
	b  *testing.B
	to *batches
	at time.Time
}

func (k *book) write(noun ledger.Noun, key string, body proto.Message) {
	k.at = k.at.Add(time.Millisecond)
	f := ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: ident.New(), At: k.at, Source: noun.Writer(), Actor: "bench",
		Request: key, Cause: ledger.CausedByClock,
	}
	header, data, err := ledger.Encode(f, 1)
	check(k.b, err)
	check(k.b, k.to.add(k.b.Context(), &nats.Msg{Subject: f.Subject(), Header: header, Data: data}))
}

// all writes facts about keys of a noun, in order.
func (k *book) all(noun ledger.Noun, key string, bodies ...proto.Message) {
	for _, body := range bodies {
		k.write(noun, key, body)
	}
}

// inventory is a fleet of servers that each have every agent.
type inventory struct{ servers, agents int }

func (inventory) server(n int) string {
	return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "server", n)).String()
}
func (inventory) name(n int) string  { return fmt.Sprintf("web-%06d", n) }
func (inventory) agent(n int) string { return fmt.Sprintf("agent-%02d", n) }

// image returns a version of an agent: 1, which is there before, or 2, which is wanted.
func (inventory) image(agent, version int) *imagev1.Ref {
	name := fmt.Append(nil, "image", agent, version)
	digest := uuid.NewSHA1(uuid.Nil, name)
	return &imagev1.Ref{
		Id: digest.String(), Version: fmt.Sprintf("%d.0.0", version), Digest: append(digest[:], digest[:]...),
	}
}

// fill writes the ledger: what may be installed, and block after block of servers with their agents.
func (i inventory) fill(k *book) {
	i.catalog(k)
	for from := 0; from < i.servers; from += blockServers {
		to := min(from+blockServers, i.servers)
		for n := from; n < to; n++ {
			i.enrol(k, n)
		}
		for agent := range i.agents {
			i.install(k, agent, from, to)
		}
	}
	check(k.b, k.to.finish(k.b.Context()))
}

func (i inventory) catalog(k *book) {
	k.write(ledger.Channel, "release", &channelv1.Created{Default: true})
	app := &applicationv1.Created{Application: &applicationv1.Application{Name: "base"}}
	k.write(ledger.Application, "base", app)
	for n := range environments {
		name := fmt.Sprint("env-", n)
		env := &environmentv1.Environment{Name: name, Channel: "release"}
		k.write(ledger.Environment, name, &environmentv1.Created{Environment: env})
	}
	for n := range i.agents {
		i.imported(k, n)
	}
}

// imported writes an agent and its images.
func (i inventory) imported(k *book, n int) {
	a := &agentv1.Agent{Name: i.agent(n), Kind: agentv1.Kind_KIND_DAEMON, Application: "base"}
	k.write(ledger.Agent, a.Name, &agentv1.Created{Agent: a})
	for version := 1; version <= 2; version++ {
		ref := i.image(n, version)
		manifest := &imagev1.Manifest{
			Id: ref.Id, Agent: a.Name, Version: ref.Version, Kind: a.Kind,
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Blob: &imagev1.Blob{Digest: ref.Digest},
		}
		created := &imagev1.Created{Manifest: manifest}
		k.all(ledger.Image, ref.Id, created, &imagev1.Filled{}, &imagev1.Activated{})
		k.write(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: ref.Id})
	}
}

// enrol writes a server that joined and was heard.
func (i inventory) enrol(k *book, n int) {
	k.all(ledger.Server, i.server(n),
		&serverv1.Invited{
			Name: i.name(n), Cell: topology.DefaultCell, Environment: fmt.Sprint("env-", n%environments),
			Labels: map[string]string{"rack": fmt.Sprint("r", n/rackServers), "role": fmt.Sprint("role-", n%7)},
		},
		&serverv1.Enrolled{PublicKey: "U" + i.server(n), Sysinfo: &serverv1.Sysinfo{
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Hostname: i.name(n), Kernel: "6.12.0-3-cloud",
			Distribution: "Debian GNU/Linux 13", Processors: 16, ProcessorModel: "Xeon", MemoryBytes: 64 << 30,
			Disks:     []*serverv1.Disk{{Mount: "/", Kind: "ext4", SizeBytes: 500 << 30}},
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}, ExecutorVersion: "1.0.0",
			BootedAt: timestamppb.New(k.at),
		}},
		&serverv1.Online{BootId: i.server(n)})
}

// install writes an intent that installs an agent on a block of servers, and how its tasks ended.
func (i inventory) install(k *book, agent, from, to int) {
	intent := ident.New()
	accepted := &intentv1.Accepted{
		Intent: &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Install{
			Install: &intentv1.Install{Agent: i.agent(agent), On: &intentv1.Selector{All: true}},
		}},
		Changed: uint32(to - from),
	}
	k.write(ledger.Intent, intent, accepted)
	for n := from; n < to; n++ {
		i.instance(k, n, agent, intent)
	}
}

// instance writes the life of one instance: wanted, its task, and what the server lists.
func (i inventory) instance(k *book, n, agent int, intent string) {
	server, name, id, task := i.server(n), i.agent(agent), ident.New(), ident.New()
	want := i.image(agent, 2)
	wanted := &instancev1.Wanted{InstanceId: id, Generation: 1, Image: want, IntentId: intent}
	observed := &instancev1.Observed{
		InstanceId: id, Image: want, Health: instancev1.Health_HEALTH_GOOD, Generation: 1,
	}
	if agent%configuredEach == 0 {
		values := map[string]string{"log": "info", "port": "9100", "environment": fmt.Sprint("env-", n%environments)}
		wanted.Configuration = &instancev1.Configuration{Metadata: values, Digest: metadata.Digest(values)}
		observed.ConfigurationDigest = wanted.Configuration.Digest
	}
	var end proto.Message = &taskv1.Succeeded{Outcome: &taskv1.Outcome{}}
	if (n+7*agent)%brokenEach == 0 {
		end = &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady, Reason: "it was not ready within 10s"}}
		observed.Image = i.image(agent, 1)
	}
	k.write(ledger.Instance, ledger.Key(server, name), wanted)
	k.all(ledger.Task, task, &taskv1.Queued{
		Verb: taskv1.Verb_VERB_INSTALL, ServerId: server, Agent: name, InstanceId: id, Generation: 1, Attempt: 1,
		To: want, IntentId: intent, Deadline: timestamppb.New(k.at.Add(time.Hour)),
	}, &taskv1.Assigned{Deadline: timestamppb.New(k.at.Add(time.Hour))}, end)
	k.write(ledger.Instance, ledger.Key(server, name), observed)
}
