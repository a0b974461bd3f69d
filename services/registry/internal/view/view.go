package view

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/application"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	imagenoun "github.com/garrison-fleet/garrison/pkg/noun/image"
	"github.com/garrison-fleet/garrison/pkg/noun/labelrule"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// Layout is the version of the tables below.
const Layout = 33

// Nouns is the nouns whose facts the view folds.
var Nouns = []ledger.Noun{
	ledger.Application, ledger.Environment, ledger.Agent, ledger.Server, ledger.Instance,
	ledger.Intent, ledger.Image, ledger.Channel, ledger.Task, ledger.External, ledger.Token,
	ledger.LabelRule, ledger.Lobby, ledger.Hold, ledger.Rollout, ledger.Block,
}

// View is the registry's view.
type View struct {
	applications *fold.Table[*applicationv1.Application]
	environments *fold.Table[*environmentv1.Environment]
	agents       *fold.Table[*agentv1.Agent]
	servers      *fold.Table[*serverv1.Server]
	instances    *fold.Table[*instancev1.Instance]
	removed      *fold.Table[*instancev1.Instance] // the state before the last removal, by the key that is free since
	intents      *fold.Table[*intentv1.Record]
	images       *fold.Table[*imagev1.Image]
	channels     *fold.Table[*channelv1.Channel]
	tasks        *fold.Table[*taskv1.Task]
	externals    *fold.Table[*externalv1.External]
	tokens       *fold.Table[*tokenv1.Token]
	labelRules   *fold.Table[*labelrulev1.LabelRule]
	rejections   *fold.Table[*lobbyv1.Rejection] // by key, while they hold
	holds        *fold.Table[*holdv1.Hold]
	blocks       *fold.Table[*blockv1.Block]
	suspects     *fold.Table[*blockv1.Suspect] // builds that failed and are not blocked, by the id of their block
	rollouts     *fold.Table[*rolloutv1.Rollout]
	targets      *fold.Table[*rolloutv1.Target] // by rollout and server

	indexes
	shared shared
}

// New returns an empty view.
func New() *View {
	v := &View{
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
		externals:    fold.NewTable[*externalv1.External]("external"),
		tokens:       fold.NewTable[*tokenv1.Token]("token"),
		labelRules:   fold.NewTable[*labelrulev1.LabelRule]("label-rule"),
		rejections:   fold.NewTable[*lobbyv1.Rejection]("rejection"),
		holds:        fold.NewTable[*holdv1.Hold]("hold"),
		blocks:       fold.NewTable[*blockv1.Block]("block"),
		suspects:     fold.NewTable[*blockv1.Suspect]("suspect"),
		rollouts:     fold.NewTable[*rolloutv1.Rollout]("rollout"),
		targets:      fold.NewTable[*rolloutv1.Target]("target"),

		indexes: newIndexes(),
		shared:  newShared(),
	}
	v.servers.Share(func(_ string, s *serverv1.Server) { v.shared.server(s) })
	v.instances.Share(func(key string, i *instancev1.Instance) {
		i.ServerId, i.Agent, _ = strings.Cut(key, ".") // parts of the key
		v.shared.instance(i)
	})
	return v
}

// Tables returns the tables, in the order of their names.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{
		v.agents, v.applications, v.blocks, v.channels, v.environments, v.externals, v.holds, v.images,
		v.instances, v.intents, v.labelRules, v.rejections, v.removed, v.rollouts, v.servers, v.suspects, v.targets,
		v.tasks, v.tokens,
	}
}

// Apply folds a fact and reports whether it fit.
func (v *View) Apply(f ledger.Fact) bool {
	switch f.Noun {
	case ledger.Agent:
		return v.applyAgent(f)
	case ledger.Server:
		return v.applyServer(f)
	case ledger.Instance:
		return v.applyInstance(f)
	case ledger.External:
		return v.applyExternal(f)
	case ledger.Intent:
		return v.applyIntent(f)
	case ledger.Task:
		return v.applyTask(f)
	case ledger.Lobby:
		return v.applyLobby(f)
	case ledger.Rollout:
		return v.applyRollout(f)
	case ledger.Block:
		return v.applyBlock(f)
	case ledger.Image:
		return v.applyImage(f)
	case ledger.Channel:
		next, fit := channel.Apply(row(v.channels, f.Key), f, v.imageKnown)
		return follow(v.channels, f, next, fit)
	}
	return v.applyDeclared(f)
}

// applyDeclared folds a fact of a noun whose record is all that follows from it.
func (v *View) applyDeclared(f ledger.Fact) bool {
	switch f.Noun {
	case ledger.Application:
		next, fit := application.Apply(row(v.applications, f.Key), f)
		return own(v.applications, f, next, fit)
	case ledger.Environment:
		have := row(v.environments, f.Key)
		next, fit := environment.Apply(have, f)
		own(v.environments, f, next, fit)
		v.keepEnvironment(f.Key, have.GetKeep())
		return fit
	case ledger.Token:
		next, fit := token.Apply(row(v.tokens, f.Key), f)
		return own(v.tokens, f, next, fit)
	case ledger.LabelRule:
		next, fit := labelrule.Apply(row(v.labelRules, f.Key), f)
		return own(v.labelRules, f, next, fit)
	case ledger.Hold:
		next, fit := hold.Apply(row(v.holds, f.Key), f)
		return own(v.holds, f, next, fit)
	}
	return false
}

// row returns the record at key, or nil.
func row[T proto.Message](t *fold.Table[T], key string) T {
	r, _ := t.Get(key)
	return r
}

// own stores the next record of one of the registry's own nouns. The key's sequence advances with
// every fact, fit or not, because the guard of the next fact must hold it.
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

// follow stores the next record of another service's noun. Nothing is kept of a deleted one, because
// the registry never guards by its sequence.
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

func (v *View) applyAgent(f ledger.Fact) bool {
	have := row(v.agents, f.Key)
	next, fit := agent.Apply(have, f)
	if fit {
		v.indexAgent(f.Key, have, next)
	}
	return own(v.agents, f, next, fit)
}

// applyImage keeps the part of the manifest that decisions need. A deleted image leaves its channels.
func (v *View) applyImage(f ledger.Fact) bool {
	next, fit := imagenoun.Apply(row(v.images, f.Key), f)
	if _, ok := f.Body.(*imagev1.Created); ok && fit {
		next.Manifest = image.WithoutContent(next.Manifest)
	}
	if next == nil && fit {
		for _, c := range v.channels.All() {
			channel.Drop(c, f.Key)
		}
	}
	return follow(v.images, f, next, fit)
}

func (v *View) imageKnown(id string) bool {
	_, ok := v.images.Get(id)
	return ok
}
