// Package link is the half of the executor that talks to the bus. It changes nothing on
// the server but the cache of chunks, and hands documents through a narrow Backend.
//
// Guarantees:
//
//  1. It takes the server's document from the bell, and reads it at a bell without it, after a reconnect, and on a
//     jittered timer, so that a missed bell costs one interval at most. A bell announces the sequence of its document:
//     what is older, because a replica answered that lags behind, is read again, four times within half a second and
//     once more after five seconds. All of that keeps to one pace.
//  2. A document for another server or cell is never handed on.
//  3. Reports are published one after another in order, each until it is acknowledged. They have no message id, under
//     which another server could block them: a report that is stored twice changes nothing the second time. What
//     was acknowledged in the last minutes is published again after a reconnect, as the bus may have lost it.
//  4. It requests chunks from the image-catalog, at most topology.ChunkWindow at a time. Every
//     chunk in the cache was compared with its digest. A chunk in the cache is not fetched again.
//  5. It retries a refused login and an unreachable bus without a limit.
package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// Report is a report that waits to be acknowledged.
type Report struct {
	Sequence uint64
	Kind     string
	Data     []byte
}

// Backend is the engine and its journal, as far as the link uses them.
type Backend interface {
	Offer(*desiredv1.Document)       // a document to converge to; does not block
	Waiting(n int) ([]Report, error) // the oldest reports that were not acknowledged
	Acknowledge(sequence uint64) error
	News() <-chan struct{} // receives when a report was added
	Beat() (Pulse, error)
}

// Pulse is what a beat says of the executor.
type Pulse struct {
	Place  lineage.Position // of the last document that was taken
	Outbox int
	State  serverv1.ExecutorState
	Code   string // why it is in that state
	Reason string
	Reset  string       // the reinstall for which it last deleted what it kept of agents; empty for none
	Agents instance.Sum // of the last list of agents that was reported
	Looked time.Time    // when the last look began that found the same as that list; zero without one
}

// age returns how long ago a look began, in milliseconds plus one; 0 without a look.
func (p Pulse) age(now time.Time) uint64 {
	if p.Looked.IsZero() {
		return 0
	}
	return 1 + uint64(max(0, now.Sub(p.Looked).Milliseconds()))
}

// Config is what a link needs; all of it but Read and Refused must be set.
type Config struct {
	Conn         *bus.Conn
	Address      topology.ServerAddress
	BootID       string
	SessionID    string // of this start of the executor
	Hostname     string
	Version      string
	Root         layout.Root
	Backend      Backend
	PollInterval time.Duration
	BeatInterval time.Duration        // at least; the registry of a large fleet asks for fewer beats
	Read         func(error)          // takes the result of each reading of the document; may be nil
	Refused      func(*apiv1.Refusal) // takes each refusal of this server's beats; may be nil
	Log          zerolog.Logger
}

// Link is the half of the executor that talks to the bus.
type Link struct {
	cfg     Config
	bell    wakeup.Signal // the document may have changed
	deaf    atomic.Bool   // bells are ignored; see listen
	rung    rung          // what bells announced since the last reading began
	back    wakeup.Signal // the bus is connected again
	new     atomic.Bool   // the subscription to bells is new: one may still be missed, see read
	sent    sent
	spacing spacing

	mu   sync.Mutex
	live map[string]time.Time // the last progress report, by task and step
}

// New returns a link.
func New(cfg Config) *Link {
	return &Link{cfg: cfg, bell: wakeup.New(), back: wakeup.New(), live: map[string]time.Time{},
		spacing: newSpacing()}
}

// Run works until ctx is done.
func (l *Link) Run(ctx context.Context) error {
	l.cfg.Conn.OnBack(l.reconnected)
	return rungroup.Run(ctx,
		rungroup.Part{Name: "bells", Run: l.listen},
		rungroup.Part{Name: "documents", Run: l.read},
		rungroup.Part{Name: "reports", Run: l.publish},
		rungroup.Part{Name: "beats", Run: l.beat},
		rungroup.Part{Name: "answers to beats", Run: l.hearAnswers})
}

// ReadAgain has the document read soon, as a bell does.
func (l *Link) ReadAgain() { l.bell.Wake() }

// reconnected handles a reconnect: however short the disconnect was, a bell may have been missed and
// a report lost.
func (l *Link) reconnected() {
	l.new.Store(true)
	l.bell.Wake()
	if l.cfg.Conn.WasLost() { // what the first connection carries is not in doubt
		l.sent.doubt()
	}
	l.back.Wake()
	l.spacing.now.Wake()
}

// publish publishes the reports, in order, each until it is acknowledged.
func (l *Link) publish(ctx context.Context) error {
	for {
		wait := jitter(l.cfg.PollInterval)
		if err := l.publishWaiting(ctx); err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn().Err(err).Msg("report not acknowledged")
			wait = jitter(retryEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-l.cfg.Backend.News():
		case <-l.back.C():
		case <-timer.C:
		}
		timer.Stop()
	}
}

const reportsAtOnce = 32

func (l *Link) publishWaiting(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.cfg.Conn.WaitConnected(ctx); err != nil {
			return err
		}
		if err := l.repeat(ctx); err != nil {
			return err
		}
		waiting, err := l.cfg.Backend.Waiting(reportsAtOnce)
		if err != nil || len(waiting) == 0 {
			return err
		}
		for _, r := range waiting {
			if err := l.publishOne(ctx, r); err != nil {
				return err
			}
			if err := l.cfg.Backend.Acknowledge(r.Sequence); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// publishOne returns nil when the report is stored, or can never be. A report carries no message id: the
// bus knows ids by the stream, so another server could use this one's and have its reports thrown
// away as duplicates. A report that is stored twice changes nothing the second time.
func (l *Link) publishOne(ctx context.Context, r Report) error {
	_, err := l.cfg.Conn.PublishDurable(ctx, bus.Durable{
		Subject: topology.ReportSubject(l.cfg.Address, r.Kind),
		Data:    r.Data,
	})
	if fault.Is(err, fault.Invalid) {
		l.cfg.Log.Error().Err(err).Uint64(logs.Sequence, r.Sequence).Msg("report given up")
		return nil // too large for the bus; it would block all later reports
	}
	if err == nil {
		l.sent.add(r, time.Now())
	}
	return err
}

// Flush publishes the waiting reports once more.
func (l *Link) Flush(ctx context.Context) error { return l.publishWaiting(ctx) }

const (
	liveEvery = time.Second // between two progress reports of one step
	liveTasks = 512         // steps whose last report is kept
)

// Progress reports how far a task is: each step when it begins, and its progress at most once a second.
// It does not block, and a report may be lost.
func (l *Link) Progress(p *taskv1.Progress) {
	now := time.Now()
	key := p.GetTaskId() + " " + p.GetStep().String()
	l.mu.Lock()
	tooSoon := now.Sub(l.live[key]) < liveEvery
	if !tooSoon {
		if len(l.live) >= liveTasks {
			clear(l.live)
		}
		l.live[key] = now
	}
	l.mu.Unlock()
	if tooSoon || !l.cfg.Conn.Connected() {
		return
	}
	if data, err := proto.Marshal(p); err == nil {
		_ = l.cfg.Conn.Publish(topology.LiveSubject(l.cfg.Address, topology.LiveTask), data) // it may be lost
	}
}
