package arch_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/garrison-fleet/garrison/pkg/fsm"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/application"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/external"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/noun/image"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/intent"
	"github.com/garrison-fleet/garrison/pkg/noun/labelrule"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/noun/source"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
)

// lives lists, for each noun, the facts that have a row in its table.
var lives = map[ledger.Noun][]string{
	ledger.Application: facts(application.Life),
	ledger.Environment: facts(environment.Life),
	ledger.Agent:       facts(agent.Life),
	ledger.Server:      facts(server.Life),
	ledger.Instance:    facts(instance.Life),
	ledger.External:    facts(external.Life),
	ledger.Intent:      facts(intent.Life),
	ledger.Image:       facts(image.Life),
	ledger.Channel:     facts(channel.Life),
	ledger.Task:        facts(task.Life),
	ledger.User:        facts(user.Life),
	ledger.Token:       facts(token.Life),
	ledger.LabelRule:   facts(labelrule.Life),
	ledger.Rollout:     facts(rollout.Life),
	ledger.Lobby:       facts(lobby.Life),
	ledger.Hold:        facts(hold.Life),
	ledger.Block:       facts(block.Life),
	ledger.Source:      facts(source.Life),
}

// beside lists facts that are about no single object of their noun, and so have no place in its life.
var beside = map[ledger.Noun][]string{
	ledger.Task: {"claimed"}, // which dispatcher may admit tasks
}

func facts[S cmp.Ordered](life fsm.Table[S, string]) []string {
	seen := map[string]bool{}
	for _, row := range life {
		for fact := range row {
			seen[fact] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// A fact without a row in its noun's life would change nothing, without an error.
func TestEveryFactHasARowInTheLifeOfItsNoun(t *testing.T) {
	known := map[ledger.Noun][]string{}
	for _, k := range ledger.Kinds {
		known[k.Noun] = append(known[k.Noun], k.Name)
		if !slices.Contains(lives[k.Noun], k.Name) && !slices.Contains(beside[k.Noun], k.Name) {
			t.Errorf("fact %s of noun %s is in no state of its Life; add it to pkg/noun/%s", k.Name, k.Noun, k.Noun)
		}
	}
	for noun, rows := range lives {
		for _, fact := range rows {
			if !slices.Contains(known[noun], fact) {
				t.Errorf("pkg/noun/%s has a row for %s, which is not in ledger.Kinds", noun, fact)
			}
		}
	}
}

// A message that no other message holds is a fact, or listed in records. A fact that is not in ledger.Kinds
// could not be read.
func TestEveryFactOfTheContractIsInTheLedgersKinds(t *testing.T) {
	nouns, kinds := map[protoreflect.FullName]ledger.Noun{}, map[protoreflect.FullName]bool{}
	for _, k := range ledger.Kinds {
		d := k.Body.ProtoReflect().Descriptor()
		nouns[d.ParentFile().Package()], kinds[d.FullName()] = k.Noun, true
	}
	held := heldMessages()
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		noun, ok := nouns[f.Package()]
		for i := range f.Messages().Len() {
			name := f.Messages().Get(i).FullName()
			if ok && !held[name] && !kinds[name] && !records[name] {
				t.Errorf("%s of noun %s is neither in ledger.Kinds nor part of another message", name, noun)
			}
		}
		return true
	})
}

// records are the records of nouns, and messages that travel by themselves. A new one is added here by hand: it is
// the question whether a new message should be a fact.
var records = map[protoreflect.FullName]bool{
	"garrison.channel.v1.Channel": true, "garrison.external.v1.External": true,
	"garrison.image.v1.Image": true, "garrison.instance.v1.Instance": true,
	"garrison.labelrule.v1.LabelRule": true, "garrison.lobby.v1.Rejection": true,
	"garrison.rollout.v1.Rollout": true, "garrison.hold.v1.Hold": true,
	"garrison.block.v1.Block": true, "garrison.block.v1.Suspect": true,
	"garrison.intent.v1.Plan": true, "garrison.intent.v1.Record": true, "garrison.intent.v1.Target": true,
	"garrison.server.v1.Candidate": true, "garrison.server.v1.Detection": true, "garrison.server.v1.Server": true,
	"garrison.source.v1.Source": true, "garrison.source.v1.Index": true, "garrison.source.v1.SignedIndex": true,
	"garrison.task.v1.Progress": true, "garrison.task.v1.Task": true,
	"garrison.token.v1.Token": true, "garrison.user.v1.User": true,
}

// heldMessages returns every message that is the type of a field of another one, or of a method.
func heldMessages() map[protoreflect.FullName]bool {
	held := map[protoreflect.FullName]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			if of := m.Fields().Get(i).Message(); of != nil && of.FullName() != m.FullName() {
				held[of.FullName()] = true
			}
		}
		for i := range m.Messages().Len() {
			walk(m.Messages().Get(i))
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			walk(f.Messages().Get(i))
		}
		return true
	})
	return held
}
