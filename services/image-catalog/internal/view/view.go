package view

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/image"
)

// Layout is the version of the tables; change it when they change.
const Layout = 1

// Nouns are what the view hears.
var Nouns = []ledger.Noun{ledger.Image, ledger.Channel}

// createdMark is the key under which marks keeps the sequence of the last image that
// was created, whatever became of it.
const createdMark = "image-created"

// View is every image and channel.
type View struct {
	images   *fold.Table[*imagev1.Image] // by id; the channels of a record are left empty here, the index has them
	channels *fold.Table[*channelv1.Channel]
	marks    *fold.Table[*imagev1.Ref] // has sequences only
	index    *index
}

// New makes an empty view.
func New() *View {
	return &View{
		images:   fold.NewTable[*imagev1.Image]("image"),
		channels: fold.NewTable[*channelv1.Channel]("channel"),
		marks:    fold.NewTable[*imagev1.Ref]("mark"),
		index:    newIndex(),
	}
}

// Tables gives the tables.
func (v *View) Tables() []fold.Stored { return []fold.Stored{v.images, v.channels, v.marks} }

// Loaded builds the indexes from the tables.
func (v *View) Loaded() {
	v.index = newIndex()
	for _, i := range v.images.All() {
		v.index.add(i)
	}
	for name, c := range v.channels.All() {
		for _, id := range c.ImageIds {
			if i, ok := v.images.Get(id); ok {
				v.index.join(i, name)
			}
		}
	}
}

// Apply folds one fact.
func (v *View) Apply(f ledger.Fact) (fit bool) {
	switch f.Noun {
	case ledger.Image:
		if fit = v.applyImage(f); !fit {
			v.images.Touch(f.Key, f.Sequence)
		}
	case ledger.Channel:
		if fit = v.applyChannel(f); !fit {
			v.channels.Touch(f.Key, f.Sequence)
		}
	}
	return fit
}

func (v *View) applyImage(f ledger.Fact) bool {
	if b, ok := f.Body.(*imagev1.Created); ok {
		v.marks.Touch(createdMark, f.Sequence)
		return v.created(f, b.GetManifest())
	}
	i, ok := v.images.Get(f.Key)
	if !ok {
		return false
	}
	event := image.EventOf(f.Body)
	next, ok := image.Life.Next(image.StateOf(i), event)
	switch {
	case !ok, event == image.Filled && i.Filled, event == image.Activated && !i.Filled:
		return false
	case event == image.Filled:
		i.Filled = true
		v.images.Put(f.Key, i, f.Sequence)
		return true
	case next == image.Deleted:
		v.deleted(i)
		v.images.Drop(f.Key, f.Sequence)
		return true
	}
	v.index.leaveState(i)
	i.State, i.Since, i.Reason = next.Record(), timestamppb.New(f.At), ""
	if b, ok := f.Body.(*imagev1.Disabled); ok {
		i.Reason = b.Reason
	}
	v.index.enterState(i)
	v.images.Put(f.Key, i, f.Sequence)
	return true
}

func (v *View) created(f ledger.Fact, m *imagev1.Manifest) bool {
	if _, exists := v.images.Get(f.Key); exists || m.GetId() != f.Key {
		return false
	}
	if _, taken := v.index.byBuild[buildOf(m)]; taken {
		return false
	}
	i := &imagev1.Image{Manifest: m, State: imagev1.State_STATE_UNACTIVATED, Since: timestamppb.New(f.At)}
	v.images.Put(f.Key, i, f.Sequence)
	v.index.add(i)
	return true
}

// deleted takes the image out of channels that still hold it: one may have got it
// between the decision to delete it and the fact.
func (v *View) deleted(i *imagev1.Image) {
	id := i.Manifest.Id
	for _, name := range slices.Clone(v.index.channelsOf(id)) {
		if c, ok := v.channels.Get(name); ok {
			c.ImageIds = without(c.ImageIds, id)
		}
		v.index.part(i, name)
	}
	v.index.drop(i)
}

func (v *View) applyChannel(f ledger.Fact) bool {
	c, exists := v.channels.Get(f.Key)
	if b, ok := f.Body.(*channelv1.Created); ok {
		if exists {
			return false
		}
		v.channels.Put(f.Key, &channelv1.Channel{Name: f.Key, Description: b.Description, Default: b.Default, CreatedAt: timestamppb.New(f.At)}, f.Sequence)
		return true
	}
	if !exists {
		return false
	}
	switch b := f.Body.(type) {
	case *channelv1.ImageAdded:
		i, ok := v.images.Get(b.ImageId)
		if !ok || slices.Contains(v.index.channelsOf(b.ImageId), f.Key) {
			return false
		}
		c.ImageIds = append(c.ImageIds, b.ImageId)
		v.index.join(i, f.Key)
	case *channelv1.ImageRemoved:
		i, ok := v.images.Get(b.ImageId)
		if !ok || !slices.Contains(v.index.channelsOf(b.ImageId), f.Key) {
			return false
		}
		c.ImageIds = without(c.ImageIds, b.ImageId)
		v.index.part(i, f.Key)
	case *channelv1.Deleted:
		for _, id := range c.ImageIds {
			if i, ok := v.images.Get(id); ok {
				v.index.part(i, f.Key)
			}
		}
		v.channels.Drop(f.Key, f.Sequence)
		return true
	default:
		return false
	}
	v.channels.Put(f.Key, c, f.Sequence)
	return true
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(ids, func(have string) bool { return have == id })
}
