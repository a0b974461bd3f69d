package view

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

// tables is the tables, what is built from them, and the values that they share.
type tables struct {
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
	sources      *fold.Table[*sourcev1.Source]
	Writers      budget.Users

	indexes
	shared shared
}

func newTables() *tables {
	v := &tables{
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
		sources:      fold.NewTable[*sourcev1.Source]("source"),
		Writers:      budget.NewUsers(),

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

func (v *origins) imageKnown(id string) bool {
	_, ok := v.images.Get(id)
	return ok
}
