package registry

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// sweepEvery is how often silence is looked for.
const sweepEvery = time.Second

// watchPresence turns beats and silence into facts. Every replica hears all beats and
// may write; the guards let one of them win.
func (r *Registry) watchPresence(ctx context.Context) error {
	r.listening = r.Now()
	stop, err := r.Conn.Subscribe("garrison.beat.*.*", r.hear)
	if err != nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(min(sweepEvery, r.BeatInterval))
	defer tick.Stop()
	// Until everybody had time to come back and to beat, silence means nothing; the same
	// after this process was cut off from the bus.
	var grace atomic.Pointer[time.Time]
	spare := func() { until := r.spareUntil(); grace.Store(&until) }
	spare()
	r.Conn.OnBack(spare) // it may be away and back between two looks, or while a sweep waits for it
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.stir:
		case <-tick.C:
		}
		if !r.Conn.Connected() {
			spare()
			continue
		}
		r.sweep(ctx, *grace.Load())
	}
}

// spareUntil says until when nobody is called offline from now on. The longer the bus was
// away, the longer a server waits before it tries again. How long it was away this process
// may not know, but the last fact was stored before that; without one there is no server.
func (r *Registry) spareUntil() time.Time {
	now, away := r.Now(), time.Duration(0)
	if last := r.follower.Stored(); !last.IsZero() {
		away = max(0, now.Sub(last))
	}
	return now.Add(server.Silence(r.BeatInterval) + min(topology.ServerBackoff, away))
}

// hear notes a beat. One of a server that is not under management is kept apart, in a table with a bound of its own, so
// what is noted stays bounded by the fleet.
func (r *Registry) hear(m bus.Message) {
	from, err := topology.ParseServerSubject("beat", m.Subject)
	if err != nil {
		return
	}
	beat := &reportv1.Beat{}
	if err := bus.Unmarshal(m, beat); err != nil || beat.ServerId != from.Server {
		r.Log.Debug().Str(logs.Subject, m.Subject).Msg("beat that cannot be believed")
		return
	}
	heard := heardOf(beat, r.Now())
	r.heardMu.Lock()
	heard.Sessions = r.heard[from.Server].Sessions.Hear(server.SightingOf(beat), heard.At, server.Lately(r.BeatInterval))
	_, settled := r.settled[from.Server]
	r.heardMu.Unlock()
	var managed, news bool
	end := r.follower.Position()
	r.follower.Read(func() {
		s, _ := r.view.Server(from.Server)
		managed = server.Managed(s) && s.Cell == from.Cell
		doubtful := !settled && server.DoubtOf(s, heard, end) != server.NoDoubt
		news = managed && (doubtful || r.factFor(s, heard, r.watch(heard.At, heard.At)) != nil)
	})
	if !managed {
		r.noteUnknown(from, beat, heard.At)
		return
	}
	r.heardMu.Lock()
	if heard.SettledAt = heard.At; beat.OutboxLength > 0 {
		heard.SettledAt = r.heard[from.Server].SettledAt
	}
	r.heard[from.Server] = heard
	r.heardMu.Unlock()
	if news {
		ring(r.stir)
	}
}

// heardOf returns what a beat says.
func heardOf(b *reportv1.Beat, now time.Time) server.Heard {
	return server.Heard{
		At: now, BootID: b.BootId, State: b.State, Code: b.Code, Reason: b.Reason,
		Place: &serverv1.DocumentPlace{
			Epoch: server.Epoch(b.DocumentEpoch), Generation: b.DocumentGeneration, Mark: b.DocumentMark,
		},
	}
}

// factFor returns the first fact that a server's beats, or their absence, lead to now, or nil.
func (r *Registry) factFor(s *serverv1.Server, heard server.Heard, w server.Watch) proto.Message {
	if body := server.Judge(s, heard, w); body != nil {
		return body
	}
	if body := server.Duplicate(s, heard, w.Now, r.listening, server.Lately(w.Beat)); body != nil {
		return body
	}
	if body := server.Condition(s, heard, w.Now); body != nil {
		return body
	}
	return nil
}

// confirmed returns until when what a server listed is known to have been true; nil when this
// process never heard it say that nothing waits to be reported.
func (r *Registry) confirmed(id string) *timestamppb.Timestamp {
	r.heardMu.Lock()
	defer r.heardMu.Unlock()
	if at := r.heard[id].SettledAt; !at.IsZero() {
		return timestamppb.New(at)
	}
	return nil
}

func (r *Registry) watch(now, grace time.Time) server.Watch {
	return server.Watch{Now: now, Beat: r.BeatInterval, Grace: grace}
}

// change is a change of what is known of a server that is to be recorded.
type change struct {
	draft ledger.Draft
	name  string
}

// sweep records every change that is due now.
func (r *Registry) sweep(ctx context.Context, grace time.Time) {
	var changes []change
	doubts := map[string]server.Heard{}
	w, end := r.watch(r.Now(), grace), r.follower.Position()
	r.heardMu.Lock()
	r.follower.Read(func() {
		for s := range r.view.AllServers() {
			heard := r.heard[s.Id]
			if body := r.factFor(s, heard, w); body != nil {
				changes = append(changes, r.draftChange(s, body))
			} else if server.DoubtOf(s, heard, end) != server.NoDoubt {
				doubts[s.Id] = heard
			}
		}
		for id := range r.heard {
			if s, ok := r.view.Server(id); !ok || !server.Managed(s) {
				delete(r.heard, id)
			}
		}
		r.forgetReports()
	})
	r.heardMu.Unlock()
	r.forgetUnknown(w.Now)
	r.sideBySide(len(changes), func(n int) { r.recordChange(ctx, changes[n]) })
	r.settleDoubts(ctx, doubts)
}

func (r *Registry) draftChange(s *serverv1.Server, body proto.Message) change {
	f := r.noticed(ledger.Server, s.Id, body, ledger.CausedByClock)
	return change{draft: r.guarded(f), name: s.Name}
}

// recordChange records one change. A Conflict means that another replica did, or that
// the server changed; the next sweep sees which.
func (r *Registry) recordChange(ctx context.Context, c change) {
	last, err := r.writer.Append(ctx, c.draft)
	if err == nil {
		err = r.follower.Wait(ctx, last)
	}
	switch {
	case err == nil:
		r.Log.Info().Str(logs.Server, c.draft.Key).Str("name", c.name).Str("change", c.draft.Name()).Msg("server changed")
	case ctx.Err() == nil && !fault.Is(err, fault.Conflict):
		r.Log.Warn().Err(err).Str(logs.Server, c.draft.Key).Str("change", c.draft.Name()).
			Msg("change of a server not recorded")
	}
}
