package view

import (
	"slices"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
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

// Promotions are what channels have to offer, and what they have to take back.
type Promotions struct {
	*tables
	given, taken *fold.Table[*rolloutv1.StandingPromotion] // due, by rollout and channel
}

// applyRollout folds the end of a rollout.
func (ps *Promotions) applyRollout(f ledger.Fact) {
	switch b := f.Body.(type) {
	case *rolloutv1.Succeeded:
		ps.addDue(ps.given, f, b.Then, false)
	case *rolloutv1.Undone:
		for _, s := range b.TakenBack {
			ps.given.Forget(ledger.Key(f.Key, s.GetPromotion().GetChannel()))
		}
		ps.addDue(ps.taken, f, b.TakenBack, true)
	}
}

// addDue notes the images that a channel does not offer yet, or still offers.
func (ps *Promotions) addDue(
	to *fold.Table[*rolloutv1.StandingPromotion], f ledger.Fact, all []*rolloutv1.Standing, offered bool,
) {
	for _, s := range all {
		p := s.GetPromotion()
		c, ok := ps.channels.Get(p.GetChannel())
		if !ok {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(p.ImageIds), func(id string) bool {
			return !ps.knows(id) || slices.Contains(c.ImageIds, id) != offered
		})
		if len(left) > 0 {
			to.Put(ledger.Key(f.Key, p.Channel), &rolloutv1.StandingPromotion{Channel: p.Channel, ImageIds: left},
				f.Sequence)
		}
	}
}

// settle drops what is due no longer once a fact about a channel was folded.
func (ps *Promotions) settle(f ledger.Fact) {
	switch b := f.Body.(type) {
	case *channelv1.ImageAdded:
		settleIn(ps.given, f.Key, b.ImageId, f.Sequence)
	case *channelv1.ImageRemoved:
		settleIn(ps.taken, f.Key, b.ImageId, f.Sequence)
	case *channelv1.Deleted:
		settleIn(ps.given, f.Key, "", f.Sequence)
		settleIn(ps.taken, f.Key, "", f.Sequence)
	}
}

// drop drops what is due of an image that is deleted.
func (ps *Promotions) drop(image string, sequence uint64) {
	settleIn(ps.given, "", image, sequence)
	settleIn(ps.taken, "", image, sequence)
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
func (ps *Promotions) IsDue(d Due, id string) bool {
	t := ps.given
	if d.Remove {
		t = ps.taken
	}
	p, _ := t.Get(ledger.Key(d.Rollout, d.Channel))
	return slices.Contains(p.GetImageIds(), id) && (d.Remove || ps.isActive(id))
}

// Due returns what is due, by rollout and channel.
func (ps *Promotions) Due() (out []Due) {
	for _, t := range []*fold.Table[*rolloutv1.StandingPromotion]{ps.given, ps.taken} {
		for key, p := range t.All() {
			d := Due{Rollout: key[:len(key)-len(p.Channel)-1], Channel: p.Channel, Remove: t == ps.taken}
			for _, id := range p.ImageIds {
				if d.Remove || ps.isActive(id) {
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
