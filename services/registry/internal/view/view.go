package view

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// Layout is the version of the tables below.
const Layout = 7

// Nouns is what the view hears.
var Nouns = []ledger.Noun{
	ledger.Application, ledger.Environment, ledger.Agent, ledger.Server, ledger.Instance,
	ledger.Intent, ledger.Image, ledger.Channel, ledger.Task,
}

// View is the registry's view.
type View struct {
	applications *fold.Table[*applicationv1.Application]
	environments *fold.Table[*environmentv1.Environment]
	agents       *fold.Table[*agentv1.Agent]
	servers      *fold.Table[*serverv1.Server]
	instances    *fold.Table[*instancev1.Instance]
	removed      *fold.Table[*instancev1.Instance] // what undoes the last removal, by the key that is free since
	intents      *fold.Table[*intentv1.Record]
	images       *fold.Table[*imagev1.Image]
	channels     *fold.Table[*channelv1.Channel]
	tasks        *fold.Table[*taskv1.Task]

	indexes
}

// New makes an empty view.
func New() *View {
	return &View{
		applications: fold.NewTable[*applicationv1.Application]("application"),
		environments: fold.NewTable[*environmentv1.Environment]("environment"),
		agents:       fold.NewTable[*agentv1.Agent]("agent"),
		servers:      fold.NewTable[*serverv1.Server]("server"),
		instances:    fold.NewTable[*instancev1.Instance]("instance"),
		removed:      fold.NewTable[*instancev1.Instance]("removed"),
		intents:      fold.NewTable[*intentv1.Record]("intent"),
		images:       fold.NewTable[*imagev1.Image]("image"),
		channels:     fold.NewTable[*channelv1.Channel]("channel"),
		tasks:        fold.NewTable[*taskv1.Task]("task"),
	}
}

// Tables gives the tables, in the order of their names.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{
		v.agents, v.applications, v.channels, v.environments, v.images,
		v.instances, v.intents, v.removed, v.servers, v.tasks,
	}
}

// Apply folds a fact and says whether it fit.
func (v *View) Apply(f ledger.Fact) bool {
	switch f.Noun {
	case ledger.Application:
		return v.applyApplication(f)
	case ledger.Environment:
		return v.applyEnvironment(f)
	case ledger.Agent:
		return v.applyAgent(f)
	case ledger.Server:
		return v.applyServer(f)
	case ledger.Instance:
		return v.applyInstance(f)
	case ledger.Intent:
		return v.applyIntent(f)
	case ledger.Task:
		return v.applyTask(f)
	case ledger.Image:
		next, ok := image.Apply(row(v.images, f.Key), f)
		return follow(v.images, f, next, ok)
	case ledger.Channel:
		next, ok := image.ApplyChannel(row(v.channels, f.Key), f)
		return follow(v.channels, f, next, ok)
	}
	return false
}

// row gives the record at key, or nil.
func row[T proto.Message](t *fold.Table[T], key string) T {
	r, _ := t.Get(key)
	return r
}

// own stores what became of a record of the registry's own nouns. The key's sequence
// moves with every fact, fit or not, because the next fact's guard must say it.
func own[T interface {
	comparable
	proto.Message
}](t *fold.Table[T], f ledger.Fact, next T, fit bool) bool {
	var none T
	switch {
	case !fit:
		t.Touch(f.Key, f.Sequence)
	case next == none:
		t.Drop(f.Key, f.Sequence)
	default:
		t.Put(f.Key, next, f.Sequence)
	}
	return fit
}

// follow stores what became of a record of another service's noun. Nothing is kept of
// one that is gone, because the registry never guards by its sequence.
func follow[T interface {
	comparable
	proto.Message
}](t *fold.Table[T], f ledger.Fact, next T, fit bool) bool {
	var none T
	switch {
	case !fit && next == none:
	case !fit:
		t.Touch(f.Key, f.Sequence)
	case next == none:
		t.Forget(f.Key)
	default:
		t.Put(f.Key, next, f.Sequence)
	}
	return fit
}

func (v *View) applyApplication(f ledger.Fact) bool {
	have := row(v.applications, f.Key)
	switch b := f.Body.(type) {
	case *applicationv1.Created:
		if have == nil && b.Application != nil {
			next := proto.CloneOf(b.Application)
			next.Name, next.CreatedAt = f.Key, timestamppb.New(f.At)
			return own(v.applications, f, next, true)
		}
	case *applicationv1.Changed:
		if have != nil && b.Application != nil {
			next := proto.CloneOf(b.Application)
			next.Name, next.CreatedAt = f.Key, have.CreatedAt
			return own(v.applications, f, next, true)
		}
	case *applicationv1.Deleted:
		return own(v.applications, f, nil, have != nil)
	}
	return own(v.applications, f, have, false)
}

func (v *View) applyEnvironment(f ledger.Fact) bool {
	have := row(v.environments, f.Key)
	switch b := f.Body.(type) {
	case *environmentv1.Created:
		if have == nil && b.Environment != nil {
			next := proto.CloneOf(b.Environment)
			next.Name, next.CreatedAt = f.Key, timestamppb.New(f.At)
			return own(v.environments, f, next, true)
		}
	case *environmentv1.Changed:
		if have != nil && b.Environment != nil {
			next := proto.CloneOf(b.Environment)
			next.Name, next.CreatedAt = f.Key, have.CreatedAt
			return own(v.environments, f, next, true)
		}
	case *environmentv1.Deleted:
		return own(v.environments, f, nil, have != nil)
	}
	return own(v.environments, f, have, false)
}

func (v *View) applyAgent(f ledger.Fact) bool {
	have := row(v.agents, f.Key)
	var next *agentv1.Agent
	fit := false
	switch b := f.Body.(type) {
	case *agentv1.Created:
		if fit = have == nil && b.Agent != nil; fit {
			next = proto.CloneOf(b.Agent)
			next.Name, next.CreatedAt, next.ChangedAt = f.Key, timestamppb.New(f.At), nil
		}
	case *agentv1.Changed:
		if fit = have != nil && b.Agent != nil && b.Agent.Kind == have.Kind; fit {
			next = proto.CloneOf(b.Agent)
			next.Name, next.CreatedAt, next.ChangedAt = f.Key, have.CreatedAt, timestamppb.New(f.At)
		}
	case *agentv1.Deleted:
		fit = have != nil
	}
	if fit {
		v.indexAgent(f.Key, have, next)
	}
	return own(v.agents, f, next, fit)
}
