package rolling

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	// keepAhead is how long a server keeps what it fetched ahead after its environment opens, so that later waves have
	// later windows.
	keepAhead = 7 * 24 * time.Hour
	// keepUnopened is how long it keeps that where no window opens.
	keepUnopened = 30 * 24 * time.Hour
)

// Prime returns the drafts that have servers fetch ahead what a rollout brings them, an intent for each image, and
// these servers: as many as fit in one atomic batch.
func Prime(r Reader, run Run, d rollout.Decision) (drafts []ledger.Draft, taken []string) {
	images, servers, until := map[string]*imagev1.Ref{}, map[string][]string{}, map[string]time.Time{}
	for _, id := range d.Prime {
		t, _ := r.Target(run.Rollout.Id, id)
		brings := rollout.Brings(t)
		fresh := slices.DeleteFunc(slices.Clone(brings), func(i *imagev1.Ref) bool { return images[i.Id] != nil })
		if len(images)+len(fresh) > mostDrafts {
			break
		}
		taken = append(taken, id)
		keep := keptUntil(r, id, run.At)
		for _, image := range brings {
			images[image.Id], servers[image.Id] = image, append(servers[image.Id], id)
			if keep.After(until[image.Id]) {
				until[image.Id] = keep
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(images)) {
		on := slices.Sorted(slices.Values(servers[id]))
		ask := intent.Ask{
			ID:    ident.From(append([]string{"rollout", run.Rollout.Id, "ahead", id}, on...)...),
			Actor: run.Rollout.Actor, At: run.At, Due: on,
			Intent: &intentv1.Intent{
				Source: &intentv1.Source{RolloutId: run.Rollout.Id},
				Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{
					On:    &intentv1.Selector{Servers: on},
					Ahead: &imagev1.Ahead{Image: images[id], KeepUntil: timestamppb.New(until[id])},
				}},
			},
		}
		ask.Verb = intent.Verb(ask.Intent)
		drafts = append(drafts, intent.Decide(r, ask).Drafts...)
	}
	return drafts, taken
}

// keptUntil returns how long a server keeps what it fetches ahead at a time.
func keptUntil(r Reader, server string, at time.Time) time.Time {
	s, _ := r.Server(server)
	e, _ := r.Environment(s.GetEnvironment())
	if opens := window.At(e, at).Until; !opens.IsZero() {
		return opens.Add(keepAhead)
	}
	return at.Add(keepUnopened)
}
