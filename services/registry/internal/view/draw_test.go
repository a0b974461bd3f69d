package view

import (
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// ref draws an image. Each has a version of its own.
func ref(t *rapid.T) *imagev1.Ref {
	id := images.Draw(t, "image")
	return &imagev1.Ref{Id: id, Version: "v" + id}
}

// anyFact draws any fact about any of the few keys, fit or not.
func anyFact(t *rapid.T, sequence uint64) ledger.Fact {
	k := rapid.SampledFrom(kinds).Draw(t, "kind")
	f := ledger.Fact{
		Noun:     k.Noun,
		Body:     fill(t, k.Body),
		At:       time.Unix(int64(sequence), 0),
		Actor:    "alice",
		Sequence: sequence,
	}
	switch k.Noun {
	case ledger.Server:
		f.Key = servers.Draw(t, "server")
	case ledger.Instance:
		f.Key = ledger.Key(servers.Draw(t, "server"), agents.Draw(t, "agent"))
	case ledger.External:
		f.Key = ledger.Key(agents.Draw(t, "agent"), ids.Draw(t, "key"))
	case ledger.Agent:
		f.Key = agents.Draw(t, "agent")
	case ledger.Image:
		f.Key = images.Draw(t, "image")
	default:
		f.Key = ids.Draw(t, "key")
	}
	return f
}

// fill returns a body with its important fields set; other bodies stay as they are.
func fill(t *rapid.T, like proto.Message) proto.Message {
	switch b := proto.Clone(like).(type) {
	case *serverv1.Invited:
		b.Name, b.Cell, b.Environment = rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "name"), "main",
			environments.Draw(
				t, "env",
			)
		b.Labels = map[string]string{"rack": racks.Draw(t, "rack")}
		return b
	case *serverv1.Enrolled:
		b.Sysinfo = sysinfos.Draw(t, "sysinfo")
		return b
	case *serverv1.SysinfoSeen:
		b.Sysinfo = sysinfos.Draw(t, "sysinfo")
		return b
	case *serverv1.ConditionChanged:
		b.State = rapid.SampledFrom([]serverv1.ExecutorState{1, 2}).Draw(t, "condition")
		return b
	case *serverv1.Changed:
		b.Environment, b.Labels = environments.Draw(t, "env"), map[string]string{"rack": racks.Draw(t, "rack")}
		return b
	case *serverv1.AgentsFound:
		for _, a := range rapid.SliceOfNDistinct(agents, 0, 2, rapid.ID).Draw(t, "found") {
			b.Agents = append(
				b.Agents,
				&serverv1.FoundAgent{
					Agent: a, Trace: serverv1.Trace_TRACE_LINK, Digest: []byte(digests.Draw(t, "digest")),
				},
			)
		}
		return b
	case *externalv1.Reported:
		b.Found = &externalv1.Found{Name: "n", Server: servers.Draw(t, "server"), Health: healths.Draw(t, "health")}
		return b
	case *instancev1.Wanted:
		b.InstanceId, b.Generation, b.Image, b.IntentId = ids.Draw(t, "id"), generations.Draw(t, "generation"),
			ref(t), "intent"
		if d := digests.Draw(t, "digest"); d != "" {
			b.Configuration = &instancev1.Configuration{
				Own: map[string]string{"a": d, "b": ""}, Metadata: map[string]string{"c": d}, Digest: []byte(d),
			}
		}
		return b
	case *instancev1.Unwanted:
		b.InstanceId, b.Generation = ids.Draw(t, "id"), generations.Draw(t, "generation")
		return b
	case *instancev1.Observed:
		b.InstanceId, b.Image, b.Health = ids.Draw(t, "id"), ref(t), healths.Draw(t, "health")
		b.ConfigurationDigest = []byte(digests.Draw(t, "digest"))
		return b
	case *instancev1.Adopted:
		b.InstanceId, b.Image = ids.Draw(t, "id"), ref(t)
		return b
	case *instancev1.Gone:
		b.InstanceId = ids.Draw(t, "id")
		return b
	case *taskv1.Queued:
		b.ServerId, b.Agent, b.InstanceId = servers.Draw(t, "server"), agents.Draw(t, "agent"), ids.Draw(t, "id")
		b.IntentId = ids.Draw(t, "intent")
		b.Generation, b.To = generations.Draw(t, "generation"), ref(t)
		return b
	default:
		return fillCatalog(t, b)
	}
}

// fillCatalog fills a body about agents, images and what they are grouped by.
func fillCatalog(t *rapid.T, body proto.Message) proto.Message {
	switch b := body.(type) {
	case *agentv1.Created:
		b.Agent = &agentv1.Agent{Kind: kindsOfAgents.Draw(t, "kind"), Application: ids.Draw(t, "application")}
		return b
	case *agentv1.Changed:
		b.Agent = &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON, Application: ids.Draw(t, "application")}
		return b
	case *applicationv1.Created:
		b.Application = &applicationv1.Application{Description: "d"}
		return b
	case *environmentv1.Created:
		b.Environment = &environmentv1.Environment{Channel: "c"}
		return b
	case *imagev1.Created:
		b.Manifest = &imagev1.Manifest{Id: images.Draw(t, "image"), Agent: agents.Draw(t, "agent")}
		return b
	case *channelv1.ImageAdded:
		b.ImageId = images.Draw(t, "image")
		return b
	case *channelv1.ImageRemoved:
		b.ImageId = images.Draw(t, "image")
		return b
	default:
		return fillRollout(t, b)
	}
}

// fillRollout fills a body from which the view makes rollouts.
func fillRollout(t *rapid.T, body proto.Message) proto.Message {
	switch b := body.(type) {
	case *rolloutv1.Planned:
		b.Part, b.Parts, b.Waves = 1, 1, []uint32{1, 1}
		for wave, id := range []string{"s3", "s1", "s2"} {
			b.Targets = append(b.Targets, &rolloutv1.Target{
				ServerId: id, Wave: uint32(wave),
				Changes: []*rolloutv1.Change{{Agent: agents.Draw(t, "agent"), To: ref(t)}},
			})
		}
	case *rolloutv1.Opened:
		b.Wave = rapid.Uint32Range(1, 2).Draw(t, "wave")
	case *rolloutv1.Passed:
		b.Wave = rapid.Uint32Range(1, 2).Draw(t, "wave")
	case *rolloutv1.Silenced:
		b.ServerIds = []string{servers.Draw(t, "server")}
	case *intentv1.Accepted:
		on := servers.Draw(t, "server")
		b.Intent = &intentv1.Intent{
			Source: &intentv1.Source{RolloutId: ids.Draw(t, "rollout")},
			Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
				Agent: agents.Draw(t, "agent"), On: &intentv1.Selector{Servers: []string{on}},
			}},
		}
		if rapid.Bool().Draw(t, "changes") {
			b.ServerIds = []string{on}
		}
	}
	return body
}

func drawFacts(t *rapid.T) []ledger.Fact {
	facts := make([]ledger.Fact, rapid.IntRange(0, 300).Draw(t, "facts"))
	for n := range facts {
		facts[n] = anyFact(t, uint64(n+1))
	}
	return facts
}
