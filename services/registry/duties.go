package registry

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
)

// dutiesAtLeast is how often duties are looked for without a reason: what could not be
// recorded is tried again.
const dutiesAtLeast = 5 * time.Second

// doDuties records what follows from what is: instances that are gone, servers that are
// dead. It looks at the view rather than at facts, so a restart loses nothing.
func (r *Registry) doDuties(ctx context.Context) error {
	tick := time.NewTicker(dutiesAtLeast)
	defer tick.Stop()
	for {
		r.duties(ctx)
		select {
		case <-r.due:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// duties does everything that is due now, side by side, so that the writer can gather it.
func (r *Registry) duties(ctx context.Context) {
	var servers []string
	r.follower.Read(func() { servers = slices.Collect(r.view.ServersWithDuties()) })
	r.keepUnrecorded(servers)
	r.sideBySide(len(servers), func(n int) {
		err := r.duty(ctx, servers[n])
		if ctx.Err() != nil || fault.Is(err, fault.Conflict) {
			return
		}
		if r.noteUnrecorded(servers[n], err); err != nil {
			r.Log.Warn().Err(err).Str(logs.Server, servers[n]).Msg("duty put off")
		}
	})
}

// noteUnrecorded keeps why what is due about a server could not be recorded; nil means that
// it was.
func (r *Registry) noteUnrecorded(id string, err error) {
	r.unrecordedMu.Lock()
	defer r.unrecordedMu.Unlock()
	if err == nil {
		delete(r.unrecorded, id)
		return
	}
	next := duty.Unrecorded{Since: r.Now(), Reason: short(err.Error())}
	if before, ok := r.unrecorded[id]; ok {
		next.Since = before.Since
	}
	r.unrecorded[id] = next
}

// keepUnrecorded forgets the servers about which nothing is due any more, so that what is kept
// stays bounded by the fleet.
func (r *Registry) keepUnrecorded(due []string) {
	r.unrecordedMu.Lock()
	defer r.unrecordedMu.Unlock()
	for id := range r.unrecorded {
		if !slices.Contains(due, id) {
			delete(r.unrecorded, id)
		}
	}
}

// dutiesLeft returns what the end of a server still waits for. It must run inside Read.
func (r *Registry) dutiesLeft(s *serverv1.Server) []*serverv1.Duty {
	r.unrecordedMu.Lock()
	unrecorded, tried := r.unrecorded[s.Id]
	r.unrecordedMu.Unlock()
	if !tried {
		return duty.Left(s, r.view.InstancesOf(s.Id), nil)
	}
	return duty.Left(s, r.view.InstancesOf(s.Id), &unrecorded)
}

// duty records the units that are due for one server. A Conflict is another registry's
// success, or a reason to look again, which the next fact gives.
func (r *Registry) duty(ctx context.Context, id string) error {
	var units [][]ledger.Draft
	var cell string
	r.follower.Read(func() {
		s, ok := r.view.Server(id)
		if !ok {
			return
		}
		cell = s.Cell
		for _, u := range duty.Units(s, r.view.InstancesOf(id)) {
			units = append(units, r.draftUnit(s, u))
		}
	})
	for _, drafts := range units {
		err := r.signDeaths(drafts, func(string) string { return cell })
		var last uint64
		if err == nil {
			last, err = r.writer.Append(ctx, drafts...)
		}
		if err == nil {
			err = r.follower.Wait(ctx, last)
		}
		if err != nil {
			return err
		}
		r.Log.Info().Str(logs.Server, id).Int(logs.Count, len(drafts)).Str("fact", drafts[len(drafts)-1].Name()).Msg("duty done")
	}
	return nil
}

func (r *Registry) draftUnit(s *serverv1.Server, u duty.Unit) []ledger.Draft {
	var drafts []ledger.Draft
	for _, c := range u {
		noun, key, intent := ledger.Server, s.Id, s.IntentId
		if c.Instance != nil {
			noun, key, intent = ledger.Instance, ledger.Key(s.Id, c.Instance.Agent), c.Instance.IntentId
		}
		f := r.noticed(noun, key, c.Body, ledger.CausedByFact(r.view.Sequence(noun, key)))
		f.Request = intent
		drafts = append(drafts, r.guarded(f))
	}
	return drafts
}

// atOnce bounds how many appends of one pass wait for the writer.
const atOnce = 256

// sideBySide calls f for 0 to n-1, many at once, and waits for all.
func (r *Registry) sideBySide(n int, f func(int)) {
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			f(i)
		}()
	}
	for range atOnce {
		slots <- struct{}{}
	}
}
