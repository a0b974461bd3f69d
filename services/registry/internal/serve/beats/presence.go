// Package beats turns the beats of servers, and their silence, into facts about presence, epoch and confirmation.
package beats

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/confirm"
	"github.com/garrison-fleet/garrison/services/registry/internal/epoch"
	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reports"
)

const (
	// SweepEvery is how often silent servers are looked for, unless the fleet is so large that this takes too long.
	SweepEvery = time.Second
	// beatsASecond bounds how many beats of one server are read in a second.
	beatsASecond = 100
)

// Watch turns beats and silence into facts. Every replica receives all beats and may write;
// the guards let one of them win.
type Watch struct {
	records   *records.Records
	conn      *bus.Conn
	Interval  time.Duration // how often servers beat
	Returns   time.Duration // within which every server is connected again that can be
	changes   *serverChanges
	epochs    *epochChecks
	unknown   *Unknown
	reports   *reports.Handler
	log       zerolog.Logger
	refused   *logs.Pacer   // beats that are not read
	pace      *pace.Pace    // of the beats of one server that are read
	wake      wakeup.Signal // when a presence may have changed
	listening time.Time     // since when this process receives beats; set before it does

	Answers       *Answers
	Confirmations *Confirmations

	mu      sync.Mutex               // taken inside Read, never around it
	last    map[string]presence.Beat // of each managed server, by id
	spacing time.Duration            // how often servers shall beat at present
	hearing presence.Hearing         // set before beats are received
	hold    presence.Hold
	late    []string        // the servers that were late at the last sweep, by id
	changed map[string]bool // managed servers whose last beat may lead to a fact, by id
	sweeps  int             // how often all servers were looked at
}

// New returns a watch that receives no beats until it runs.
func New(
	r *records.Records, conn *bus.Conn, interval time.Duration, reports *reports.Handler, unknown *Unknown,
	log zerolog.Logger,
) *Watch {
	changes := &serverChanges{records: r, log: log}
	return &Watch{
		records: r, conn: conn, Interval: interval, Returns: topology.ServerReturns, changes: changes,
		epochs: newEpochChecks(r, conn, changes, log), unknown: unknown, reports: reports, log: log,
		refused: logs.NewPacer(), pace: pace.New(beatsASecond, time.Second), wake: wakeup.New(),
		last: map[string]presence.Beat{}, changed: map[string]bool{},
		Answers: &Answers{conn: conn, log: log}, Confirmations: &Confirmations{records: r, book: confirm.New()},
	}
}

// SetClock calls set, which may move the clock, while nothing is decided. Time that passes in it is time in which beats
// were heard; another jump of the clock means that this process stood still.
func (p *Watch) SetClock(set func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set()
	p.hearing.Look(p.records.Now())
}

// Sweeps returns how often all servers were looked at, and what was due was recorded.
func (p *Watch) Sweeps() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sweeps
}

// Run watches presence until ctx is done.
func (p *Watch) Run(ctx context.Context) error {
	p.listening = p.records.Now()
	p.hearing = presence.NewHearing(p.listening, p.Interval, p.Interval, p.Returns)
	managed := p.countManaged()
	p.mu.Lock()
	p.setSpacing(managed)
	p.mu.Unlock()
	p.interrupted()
	beats, err := p.conn.Another() // so that no flood of beats delays an answer or a fact
	if err != nil {
		return err
	}
	defer beats.Close()
	received, err := beats.Follow(topology.BeatSubjects, p.Receive)
	if err != nil {
		return err
	}
	defer received.Stop()
	ended, err := beats.Follow(topology.GoneSubjects, p.gone)
	if err != nil {
		return err
	}
	defer ended.Stop()
	beats.OnBack(p.interrupted) // the bus may be lost and back between two ticks, or during a sweep
	go p.listenUp(ctx, received)
	go p.watchServers(ctx)
	go p.look(ctx, func() bool { return p.conn.Connected() && beats.Connected() })
	every := min(SweepEvery, p.Interval)
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake.C():
			if p.conn.Connected() && beats.Connected() {
				p.decideChanged(ctx)
			}
		case <-tick.C:
			rest := every
			if p.conn.Connected() && beats.Connected() {
				rest = restAfter(p.sweep(ctx), every, p.Interval)
			}
			tick.Reset(rest)
		}
	}
}

// look notes that this process runs and is connected, apart from the sweeps, which wait for the ledger.
func (p *Watch) look(ctx context.Context, connected func() bool) {
	tick := time.NewTicker(max(p.Interval/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !connected() {
			p.interrupted()
			continue
		}
		p.mu.Lock()
		p.hearing.Look(p.records.Now())
		p.mu.Unlock()
	}
}

// interrupted notes that beats may have been lost until now.
func (p *Watch) interrupted() {
	now := p.records.Now()
	p.mu.Lock()
	p.hearing.Interrupted(now)
	p.mu.Unlock()
}

// listenUp notes again and again until when all beats were looked at: on a busy machine they wait at the bus or here,
// and a server whose beats wait is not silent.
func (p *Watch) listenUp(ctx context.Context, beats *bus.Subscription) {
	tick := time.NewTicker(max(min(SweepEvery, p.Interval)/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := p.records.Now()
		if beats.CatchUp(ctx) != nil {
			continue // the bus is away, or as slow as that
		}
		p.mu.Lock()
		p.hearing.Heard(asked)
		p.mu.Unlock()
	}
}

// Receive keeps a beat. One of a server that is not under management, or shut out, is kept apart, in a table with
// a bound of its own, so that the beats stay bounded by the fleet.
func (p *Watch) Receive(m bus.Message) {
	from, err := topology.ParseBeatSubject(m.Subject)
	if err != nil {
		return
	}
	if _, ok := p.pace.Take(from.Server); !ok {
		return // no server beats that often; what the last ones said counts
	}
	body, err := readBeat(m, from)
	if err != nil {
		p.refused.Warn(p.log, from.Server).Err(err).Str(logs.Server, from.Server).Msg("beat ignored")
		return
	}
	beat := beatOf(body, p.records.Now())
	p.mu.Lock()
	timeout := presence.SessionTimeout(presence.LongestSpacing(p.Interval, p.spacing))
	last := p.last[from.Server]
	beat.Sessions = last.Sessions.Add(presence.SightingOf(body), beat.At, timeout)
	beat.Clock = last.Clock.Add(body.SentAt, beat.At)
	p.mu.Unlock()
	managed, changes := p.assess(from, beat)
	if !managed {
		// Not at its first beats: this replica may be about to read that it enrolled.
		if since := p.unknown.add(from, body, beat.At); beat.At.Sub(since) >= p.Interval {
			if r := p.unknown.refusal(from); r != nil {
				p.Answers.refuse(from, r)
			}
		}
		return
	}
	p.mu.Lock()
	before := p.last[from.Server]
	if beat.SettledAt = beat.At; body.OutboxLength > 0 {
		beat.SettledAt = before.SettledAt
	}
	every := p.space(&beat, before, body.GetEvery().AsDuration())
	if before.At.Before(p.hearing.Began()) {
		p.hearing.Returned(beat.At)
	}
	p.last[from.Server] = beat
	if changes {
		p.changed[from.Server] = true
	}
	p.mu.Unlock()
	if every > 0 {
		p.Answers.ask(from, every)
	}
	p.Confirmations.add(from.Server, body, beat.At)
	if changes {
		p.wake.Wake()
	}
}

// readBeat decodes a beat and cuts it to what may be decided on. It looks at the size first.
func readBeat(m bus.Message, from topology.ServerAddress) (*reportv1.Beat, error) {
	if len(m.Data) > bounds.BeatBytes {
		return nil, fault.New(fault.Invalid, "a beat of %d bytes; %d are the most", len(m.Data), bounds.BeatBytes)
	}
	body := &reportv1.Beat{}
	if err := bus.Unmarshal(m, body); err != nil {
		return nil, err
	}
	if body.ServerId != from.Server {
		return nil, fault.New(fault.Invalid, "a beat of another server, %.80q", body.ServerId)
	}
	return body, bounds.Beat(body)
}

// assess reports whether a beat is of a managed server, and whether it may lead to a fact.
func (p *Watch) assess(from topology.ServerAddress, beat presence.Beat) (managed, changes bool) {
	end := p.records.Follower.Position()
	checked := p.epochs.checkedRecently(from.Server)
	p.mu.Lock()
	t := p.timing(beat.At)
	t.Heard, t.Grace, t.Held = beat.At, beat.At, false
	p.mu.Unlock()
	p.records.Follower.Read(func() {
		s, _ := p.records.View.Server(from.Server)
		managed = server.Believed(s) && s.Cell == from.Cell
		doubtful := !checked && epoch.DoubtOf(s, beat, end) != epoch.NoDoubt
		changes = managed && (doubtful || p.factFor(s, beat, t) != nil)
	})
	return managed, changes
}

// beatOf returns the content of a beat.
func beatOf(b *reportv1.Beat, now time.Time) presence.Beat {
	return presence.Beat{
		At: now, BootID: b.BootId, State: b.State, Code: b.Code, Reason: b.Reason, Reset: b.ResetId,
		Place: &serverv1.DocumentPlace{
			Epoch: server.Epoch(b.DocumentEpoch), Generation: b.DocumentGeneration, Mark: b.DocumentMark,
		},
	}
}

// factFor returns the first fact that a server's beats, or their absence, lead to now, or nil.
// A server that is not believed can only be quarantined, or called offline.
func (p *Watch) factFor(s *serverv1.Server, last presence.Beat, t presence.Timing) proto.Message {
	if over := intake.Quarantine(s, p.records.Budget, t.Now); over != nil {
		return over
	}
	body := presence.Decide(s, last, t)
	if _, online := body.(*serverv1.Online); !server.Believed(s) && online {
		return nil
	}
	if body != nil || !server.Believed(s) {
		return body
	}
	timeout := presence.SessionTimeout(t.Spacing)
	if body := presence.DecideDuplicate(s, last, t.Now, p.listening, timeout); body != nil {
		return body
	}
	if body := presence.DecideCondition(s, last, t.Now); body != nil {
		return body
	}
	if s.GetReinstall() == nil {
		return nil
	}
	return presence.DecideReinstalled(s, last, p.records.View.InstancesOf(s.Id))
}

// HearingSince returns since when this process receives beats without a break; zero before it does.
func (p *Watch) HearingSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hearing.Began()
}
