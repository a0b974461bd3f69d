package view

import (
	"slices"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Due is what rollouts that succeeded have channels offer, and what rollouts that were undone take back, until the
// channels' own facts show it.
type Due struct {
	Rollout, Channel string
	Images           []string // those that can be recorded now
	Waiting          []string // those that no channel can offer until they are active
	Remove           bool     // take them back
}

// applyRollout folds the end of a rollout.
func (v *View) applyRollout(f ledger.Fact) {
	switch b := f.Body.(type) {
	case *rolloutv1.Succeeded:
		v.addDue(v.promotions, f, b.Then, false)
	case *rolloutv1.Undone:
		for _, s := range b.TakenBack {
			v.promotions.Forget(ledger.Key(f.Key, s.GetPromotion().GetChannel()))
		}
		v.addDue(v.demotions, f, b.TakenBack, true)
	}
}

// addDue notes the images that a channel does not offer yet, or still offers.
func (v *View) addDue(
	to *fold.Table[*rolloutv1.StandingPromotion], f ledger.Fact, all []*rolloutv1.Standing, offered bool,
) {
	for _, s := range all {
		p := s.GetPromotion()
		c, ok := v.channels.Get(p.GetChannel())
		if !ok {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(p.ImageIds), func(id string) bool {
			return !v.knows(id) || slices.Contains(c.ImageIds, id) != offered
		})
		if len(left) > 0 {
			to.Put(ledger.Key(f.Key, p.Channel), &rolloutv1.StandingPromotion{Channel: p.Channel, ImageIds: left},
				f.Sequence)
		}
	}
}

// settle drops what is due no longer once a fact about a channel was folded.
func (v *View) settle(f ledger.Fact) {
	switch b := f.Body.(type) {
	case *channelv1.ImageAdded:
		settleIn(v.promotions, f.Key, b.ImageId, f.Sequence)
	case *channelv1.ImageRemoved:
		settleIn(v.demotions, f.Key, b.ImageId, f.Sequence)
	case *channelv1.Deleted:
		settleIn(v.promotions, f.Key, "", f.Sequence)
		settleIn(v.demotions, f.Key, "", f.Sequence)
	}
}

// settleIn takes an image out of what is due on a channel, "" for all of them; any channel with an empty name.
func settleIn(t *fold.Table[*rolloutv1.StandingPromotion], channel, image string, sequence uint64) {
	next := map[string]*rolloutv1.StandingPromotion{}
	for key, p := range t.All() {
		if channel != "" && p.Channel != channel || image != "" && !slices.Contains(p.ImageIds, image) {
			continue
		}
		next[key] = &rolloutv1.StandingPromotion{Channel: p.Channel}
		for _, id := range p.ImageIds {
			if image != "" && id != image {
				next[key].ImageIds = append(next[key].ImageIds, id)
			}
		}
	}
	for key, p := range next {
		if len(p.ImageIds) == 0 {
			t.Forget(key)
		} else {
			t.Put(key, p, sequence)
		}
	}
}

// IsDue reports whether an image of what was due can still be recorded.
func (v *View) IsDue(d Due, id string) bool {
	t := v.promotions
	if d.Remove {
		t = v.demotions
	}
	p, _ := t.Get(ledger.Key(d.Rollout, d.Channel))
	return slices.Contains(p.GetImageIds(), id) && (d.Remove || v.isActive(id))
}

func (v *View) isActive(id string) bool {
	i, _ := v.images.Get(id)
	return i.GetState() == imagev1.State_STATE_ACTIVE
}

// Due returns what is due, by rollout and channel.
func (v *View) Due() (out []Due) {
	for _, t := range []*fold.Table[*rolloutv1.StandingPromotion]{v.promotions, v.demotions} {
		for key, p := range t.All() {
			d := Due{Rollout: key[:len(key)-len(p.Channel)-1], Channel: p.Channel, Remove: t == v.demotions}
			for _, id := range p.ImageIds {
				if d.Remove || v.isActive(id) {
					d.Images = append(d.Images, id)
				} else {
					d.Waiting = append(d.Waiting, id)
				}
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Due) int {
		return slices.Compare([]string{a.Rollout, a.Channel}, []string{b.Rollout, b.Channel})
	})
	return out
}
