package bench

import (
	"context"
	"fmt"
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
	ctx context.Context
	to  *batches
	at  time.Time
}

func (b *book) write(noun ledger.Noun, key string, body proto.Message) error {
	b.at = b.at.Add(time.Millisecond)
	f := ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: ident.New(), At: b.at, Source: noun.Writer(), Actor: "bench",
		Request: key, Cause: ledger.CausedByClock,
	}
	header, data, err := ledger.Encode(f)
	if err != nil {
		return err
	}
	return b.to.add(b.ctx, &nats.Msg{Subject: f.Subject(), Header: header, Data: data})
}

// all writes facts about keys of a noun, in order.
func (b *book) all(noun ledger.Noun, key string, bodies ...proto.Message) error {
	for _, body := range bodies {
		if err := b.write(noun, key, body); err != nil {
			return err
		}
	}
	return nil
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
func (i inventory) fill(b *book) error {
	if err := i.catalog(b); err != nil {
		return err
	}
	for from := 0; from < i.servers; from += blockServers {
		to := min(from+blockServers, i.servers)
		for n := from; n < to; n++ {
			if err := i.enrol(b, n); err != nil {
				return err
			}
		}
		for agent := range i.agents {
			if err := i.install(b, agent, from, to); err != nil {
				return err
			}
		}
	}
	return b.to.finish(b.ctx)
}

func (i inventory) catalog(b *book) error {
	if err := b.write(ledger.Channel, "release", &channelv1.Created{Default: true}); err != nil {
		return err
	}
	app := &applicationv1.Created{Application: &applicationv1.Application{Name: "base"}}
	if err := b.write(ledger.Application, "base", app); err != nil {
		return err
	}
	for n := range environments {
		name := fmt.Sprint("env-", n)
		env := &environmentv1.Environment{Name: name, Channel: "release"}
		if err := b.write(ledger.Environment, name, &environmentv1.Created{Environment: env}); err != nil {
			return err
		}
	}
	for n := range i.agents {
		if err := i.imported(b, n); err != nil {
			return err
		}
	}
	return nil
}

// imported writes an agent and its images.
func (i inventory) imported(b *book, n int) error {
	a := &agentv1.Agent{Name: i.agent(n), Kind: agentv1.Kind_KIND_DAEMON, Application: "base"}
	if err := b.write(ledger.Agent, a.Name, &agentv1.Created{Agent: a}); err != nil {
		return err
	}
	for version := 1; version <= 2; version++ {
		ref := i.image(n, version)
		manifest := &imagev1.Manifest{
			Id: ref.Id, Agent: a.Name, Version: ref.Version, Kind: a.Kind,
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Blob: &imagev1.Blob{Digest: ref.Digest},
		}
		created := &imagev1.Created{Manifest: manifest}
		err := b.all(ledger.Image, ref.Id, created, &imagev1.Filled{}, &imagev1.Activated{})
		if err != nil {
			return err
		}
		if err := b.write(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: ref.Id}); err != nil {
			return err
		}
	}
	return nil
}

// enrol writes a server that joined and was heard.
func (i inventory) enrol(b *book, n int) error {
	return b.all(ledger.Server, i.server(n),
		&serverv1.Invited{
			Name: i.name(n), Cell: topology.DefaultCell, Environment: fmt.Sprint("env-", n%environments),
			Labels: map[string]string{"rack": fmt.Sprint("r", n/rackServers), "role": fmt.Sprint("role-", n%7)},
		},
		&serverv1.Enrolled{PublicKey: "U" + i.server(n), Sysinfo: &serverv1.Sysinfo{
			Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Hostname: i.name(n), Kernel: "6.12.0-3-cloud",
			Distribution: "Debian GNU/Linux 13", Processors: 16, ProcessorModel: "Xeon", MemoryBytes: 64 << 30,
			Disks:     []*serverv1.Disk{{Mount: "/", Kind: "ext4", SizeBytes: 500 << 30}},
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}, ExecutorVersion: "1.0.0",
			BootedAt: timestamppb.New(b.at),
		}},
		&serverv1.Online{BootId: i.server(n)})
}

// install writes an intent that installs an agent on a block of servers, and how its tasks ended.
func (i inventory) install(b *book, agent, from, to int) error {
	intent := ident.New()
	accepted := &intentv1.Accepted{
		Intent: &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Install{
			Install: &intentv1.Install{Agent: i.agent(agent), On: &intentv1.Selector{All: true}},
		}},
		Changed: uint32(to - from),
	}
	if err := b.write(ledger.Intent, intent, accepted); err != nil {
		return err
	}
	for n := from; n < to; n++ {
		if err := i.instance(b, n, agent, intent); err != nil {
			return err
		}
	}
	return nil
}

// instance writes the life of one instance: wanted, its task, and what the server lists.
func (i inventory) instance(b *book, n, agent int, intent string) error {
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
	if err := b.write(ledger.Instance, ledger.Key(server, name), wanted); err != nil {
		return err
	}
	err := b.all(ledger.Task, task, &taskv1.Queued{
		Verb: taskv1.Verb_VERB_INSTALL, ServerId: server, Agent: name, InstanceId: id, Generation: 1, Attempt: 1,
		To: want, IntentId: intent, Deadline: timestamppb.New(b.at.Add(time.Hour)),
	}, &taskv1.Assigned{Deadline: timestamppb.New(b.at.Add(time.Hour))}, end)
	if err != nil {
		return err
	}
	return b.write(ledger.Instance, ledger.Key(server, name), observed)
}
