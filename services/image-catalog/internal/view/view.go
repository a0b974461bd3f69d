// Package view is the image-catalog's view: a fold of the facts about images and channels, with
// the indexes and queries that requests and decisions need.
//
// It is pure: no clock, log, bus or files. The lives of the nouns are in pkg/noun.
//
// Guarantees:
//
//  1. Apply is a function of the facts; a view that is loaded from tables equals the one that wrote them.
//  2. An agent, version and platform have one image at most.
//  3. A channel holds only images that exist: a deleted image leaves its channels.
package view

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"
	"github.com/garrison-fleet/garrison/pkg/noun/image"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// Layout is the version of the tables; raise it when they or the fold change.
const Layout = 8

// Nouns are the nouns that the view folds.
var Nouns = []ledger.Noun{ledger.Image, ledger.Channel, ledger.Rollout, ledger.Source}

// createdMark is the key in marks of the sequence of the last fact image.created, also of one that
// did not fit.
const createdMark = "image-created"

// tables are every image and channel.
type tables struct {
	images   *fold.Table[*imagev1.Image] // by id; without channels, which are in the index
	channels *fold.Table[*channelv1.Channel]
	marks    *fold.Table[*imagev1.Ref] // sequences only
	index    *index
}

func (t *tables) knows(imageID string) bool {
	_, ok := t.images.Get(imageID)
	return ok
}

func (t *tables) isActive(imageID string) bool {
	i, _ := t.images.Get(imageID)
	return i.GetState() == imagev1.State_STATE_ACTIVE
}

// View is every image, channel and source, and what rollouts that ended have channels offer.
type View struct {
	*lister
	Promotions *Promotions
	Sources    Sources
	Writers    budget.Users
}

// New returns an empty view.
func New() *View {
	t := &tables{
		images:   fold.NewTable[*imagev1.Image]("image"),
		channels: fold.NewTable[*channelv1.Channel]("channel"),
		marks:    fold.NewTable[*imagev1.Ref]("mark"),
		index:    newIndex(),
	}
	return &View{
		lister: &lister{&finder{t}},
		Promotions: &Promotions{
			tables: t,
			given:  fold.NewTable[*rolloutv1.StandingPromotion]("promotion"),
			taken:  fold.NewTable[*rolloutv1.StandingPromotion]("demotion"),
		},
		Sources: Sources{fold.NewTable[*sourcev1.Source]("source")},
		Writers: budget.NewUsers(),
	}
}

// Tables returns the tables, for snapshots.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{
		v.images, v.channels, v.Sources.table, v.marks, v.Promotions.given, v.Promotions.taken, v.Writers,
	}
}

// Loaded builds the indexes from the tables.
func (v *View) Loaded() {
	v.index = newIndex()
	for _, i := range v.images.All() {
		v.index.add(i)
	}
	for name, c := range v.channels.All() {
		for _, id := range c.ImageIds {
			if i, ok := v.images.Get(id); ok {
				v.index.joinChannel(i, name)
			}
		}
	}
}

// Apply folds one fact.
func (v *View) Apply(f ledger.Fact) (fit bool) {
	v.Writers.Apply(f)
	switch f.Noun {
	case ledger.Image:
		if fit = v.applyImage(f); !fit {
			v.images.Touch(f.Key, f.Sequence)
		}
	case ledger.Channel:
		if fit = v.applyChannel(f); !fit {
			v.channels.Touch(f.Key, f.Sequence)
		} else {
			v.Promotions.settle(f)
		}
	case ledger.Source:
		return v.Sources.apply(f)
	case ledger.Rollout:
		v.Promotions.applyRollout(f)
		return true
	}
	return fit
}

func (v *View) applyImage(f ledger.Fact) bool {
	have, _ := v.images.Get(f.Key)
	if b, ok := f.Body.(*imagev1.Created); ok {
		v.marks.Touch(createdMark, f.Sequence)
		if _, taken := v.ByBuild(b.GetManifest()); taken {
			return false
		}
	}
	before := have.GetState()
	next, fit := image.Apply(have, f)
	switch {
	case !fit:
		return false
	case next == nil:
		v.dropImage(have)
		v.images.Drop(f.Key, f.Sequence)
		return true
	case have == nil:
		v.index.add(next)
	default:
		v.index.moveState(next, before)
	}
	v.images.Put(f.Key, next, f.Sequence)
	return true
}

// dropImage takes a deleted image out of the indexes, and out of channels that still hold it.
func (v *View) dropImage(i *imagev1.Image) {
	id := i.Manifest.Id
	for _, name := range slices.Clone(v.index.channelsOf(id)) {
		if c, ok := v.channels.Get(name); ok {
			channel.Drop(c, id)
		}
		v.index.leaveChannel(i, name)
	}
	v.index.remove(i)
	v.Promotions.drop(id, v.images.Sequence(id))
}

func (v *View) applyChannel(f ledger.Fact) bool {
	have, _ := v.channels.Get(f.Key)
	next, fit := channel.Apply(have, f, v.knows)
	if !fit {
		return false
	}
	switch b := f.Body.(type) {
	case *channelv1.ImageAdded:
		i, _ := v.images.Get(b.ImageId)
		v.index.joinChannel(i, f.Key)
	case *channelv1.ImageRemoved:
		i, _ := v.images.Get(b.ImageId)
		v.index.leaveChannel(i, f.Key)
	case *channelv1.Deleted:
		for _, id := range have.ImageIds {
			i, _ := v.images.Get(id)
			v.index.leaveChannel(i, f.Key)
		}
		v.channels.Drop(f.Key, f.Sequence)
		return true
	}
	v.channels.Put(f.Key, next, f.Sequence)
	return true
}
