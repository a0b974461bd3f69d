package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// promotionsEvery is how often what could not be recorded is tried again without a fact.
const promotionsEvery = time.Minute

// promotions records what rollouts end with: the images that a channel offers from then on, and those that an undo
// takes back. It decides on the view, which keeps what is due until the channel's facts show it, so a restart loses
// nothing, and the guard of the channel's key lets one of two replicas record it.
type promotions struct {
	catalog *Catalog
	wake    wakeup.Signal
	waits   map[string]bool // what was logged to wait for an image; of run alone
}

func (p *promotions) noteFacts(facts []ledger.Fact) {
	matters := func(f ledger.Fact) bool { return f.Noun == ledger.Rollout || f.Noun == ledger.Image }
	if slices.ContainsFunc(facts, matters) {
		p.wake.Wake()
	}
}

// run records until ctx is done.
func (p *promotions) run(ctx context.Context) error {
	tick := time.NewTicker(promotionsEvery)
	defer tick.Stop()
	for {
		var due []view.Due
		p.catalog.follower.Read(func() { due = p.catalog.view.Promotions.Due() })
		p.noteWaiting(due)
		for _, d := range due {
			for _, id := range d.Images {
				if err := p.record(ctx, d, id); err != nil && ctx.Err() == nil {
					p.catalog.cfg.Log.Warn().Err(err).Str("rollout", d.Rollout).Str("channel", d.Channel).
						Str(logs.Image, id).Msg("what a rollout ends with is put off")
				}
			}
		}
		select {
		case <-p.wake.C():
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// noteWaiting logs once what waits for an image that is not active. The fact that it is active again wakes run.
func (p *promotions) noteWaiting(due []view.Due) {
	waits := map[string]bool{}
	for _, d := range due {
		for _, id := range d.Waiting {
			key := ledger.Key(d.Rollout, d.Channel, id)
			if waits[key] = true; !p.waits[key] {
				p.catalog.cfg.Log.Warn().Str("rollout", d.Rollout).Str("channel", d.Channel).Str(logs.Image, id).
					Msg("what a rollout ends with waits until the image is active")
			}
		}
	}
	p.waits = waits
}

// record records one image of one channel. It is safe to run twice: what was recorded is due no longer.
func (p *promotions) record(ctx context.Context, d view.Due, id string) error {
	c := p.catalog
	origin := decide.Origin{Request: d.Rollout, Cause: ledger.CausedByIntent(d.Rollout)}
	_, err := c.decider.Do(ctx, func() ([]ledger.Draft, error) {
		if !c.view.Promotions.IsDue(d, id) {
			return nil, nil
		}
		drafts, err := p.decide(d, id)
		for i, x := range drafts {
			drafts[i].Fact = c.decider.Fact(origin, x.Noun, x.Key, x.Body)
		}
		return drafts, err
	})
	if err == nil {
		c.cfg.Log.Info().Str("rollout", d.Rollout).Str("channel", d.Channel).Str(logs.Image, id).
			Bool("removed", d.Remove).Msg("recorded what a rollout ends with")
	}
	return err
}

func (p *promotions) decide(d view.Due, id string) ([]ledger.Draft, error) {
	if !d.Remove {
		return decision.Promote(p.catalog.view, id, d.Channel)
	}
	ch, err := p.catalog.view.Channel(d.Channel)
	if err != nil || !slices.Contains(ch.ImageIds, id) {
		return nil, unlessMissing(err)
	}
	return decision.TakeBack(p.catalog.view, id, d.Channel), nil
}

// unlessMissing returns no error for what no longer exists.
func unlessMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
