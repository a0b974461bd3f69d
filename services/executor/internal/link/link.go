package link

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// Report is a report that waits to be acknowledged.
type Report struct {
	Sequence uint64
	Kind     string
	Data     []byte
}

// Door is everything that the link knows of the other half.
type Door interface {
	Offer(*desiredv1.Document)       // a document to converge to; does not block
	Waiting(n int) ([]Report, error) // the oldest reports that were not acknowledged
	Acknowledge(sequence uint64) error
	News() <-chan struct{} // told when there is something new among the reports
	Beat() (Pulse, error)
}

// Pulse is what a beat says of the executor.
type Pulse struct {
	Place  lineage.Place // of the last document that was taken
	Outbox int
	State  serverv1.ExecutorState
	Code   string // why it is in that state
	Reason string
}

// Config is what a link needs; all of it but Read must be set.
type Config struct {
	Conn         *bus.Conn
	Address      topology.ServerAddress
	BootID       string
	SessionID    string // of this start of the executor
	Hostname     string
	Version      string
	Root         layout.Root
	Door         Door
	PollInterval time.Duration
	BeatInterval time.Duration
	Read         func(error) // told how each reading of the document ended; may be nil
	Log          zerolog.Logger
}

// Link is the half of the executor that talks to the bus.
type Link struct {
	cfg  Config
	ring chan struct{}
	back chan struct{} // told when the bus is back
	sent sent

	mu   sync.Mutex
	live map[string]time.Time // when something was last said live, by task and step
}

// New gives a link.
func New(cfg Config) *Link {
	return &Link{cfg: cfg, ring: make(chan struct{}, 1), back: make(chan struct{}, 1), live: map[string]time.Time{}}
}

// Run works until ctx is done.
func (l *Link) Run(ctx context.Context) error {
	stop, err := l.cfg.Conn.Subscribe(topology.BellSubject(l.cfg.Address), func(bus.Message) { l.wake() })
	if err != nil {
		return err
	}
	defer stop()
	l.cfg.Conn.OnBack(l.wasAway)
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "documents", Run: l.read},
		lifecycle.Part{Name: "reports", Run: l.publish},
		lifecycle.Part{Name: "beats", Run: l.beat})
}

func (l *Link) wake() { tell(l.ring) }

// ReadAgain has the document read soon, as a bell does.
func (l *Link) ReadAgain() { l.wake() }

// wasAway says that a bell may have been missed, and a report forgotten, however short the
// bus was away.
func (l *Link) wasAway() {
	l.wake()
	l.sent.doubt()
	tell(l.back)
}

// tell rings a bell that may be ringing already.
func tell(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// jitter spreads a fleet's reads: from three quarters to five quarters of d.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d/2)+1))
}

const (
	readsAtOnce  = 10 // how many bells are answered at once before the pace is kept
	readsASecond = 2
)

// read reads the document whenever it may have changed. Whoever can ring the bell
// cannot make it read faster than its pace.
func (l *Link) read(ctx context.Context) error {
	pace := rate.NewLimiter(readsASecond, readsAtOnce)
	for {
		if err := pace.Wait(ctx); err != nil {
			return ctx.Err()
		}
		if err := l.cfg.Conn.WaitConnected(ctx); err != nil {
			return ctx.Err()
		}
		wait := jitter(l.cfg.PollInterval)
		err := l.readOnce(ctx)
		if l.cfg.Read != nil && ctx.Err() == nil {
			l.cfg.Read(err)
		}
		if err != nil && ctx.Err() == nil {
			l.cfg.Log.Warn().Err(err).Msg("document not read")
			wait = min(wait, jitter(retryEvery))
		}
		if err := l.untilDue(ctx, wait); err != nil {
			return err
		}
	}
}

const retryEvery = 5 * time.Second

// untilDue waits for the bell, the timer, or the bus to come back.
func (l *Link) untilDue(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ring:
	case <-timer.C:
	}
	return nil
}

func (l *Link) readOnce(ctx context.Context) error {
	d, err := Document(ctx, l.cfg.Conn, l.cfg.Address)
	if err == nil && d != nil {
		l.cfg.Door.Offer(d)
	}
	return err
}

// Document reads a server's document; nil when nothing was ever wanted there.
func Document(ctx context.Context, conn *bus.Conn, at topology.ServerAddress) (*desiredv1.Document, error) {
	m, err := conn.DirectGet(ctx, topology.Desired, topology.DesiredSubject(at))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &desiredv1.Document{}
	if err := bus.Unmarshal(m, d); err != nil {
		return nil, err
	}
	if d.GetServerId() != at.Server || d.GetCell() != at.Cell {
		return nil, fault.New(fault.Invalid, "the document is for %s.%s", d.GetCell(), d.GetServerId())
	}
	return d, nil
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
		case <-l.cfg.Door.News():
		case <-l.back:
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
		waiting, err := l.cfg.Door.Waiting(reportsAtOnce)
		if err != nil || len(waiting) == 0 {
			return err
		}
		for _, r := range waiting {
			if err := l.publishOne(ctx, r); err != nil {
				return err
			}
			if err := l.cfg.Door.Acknowledge(r.Sequence); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// publishOne gives nil when the report is stored, or never can be.
func (l *Link) publishOne(ctx context.Context, r Report) error {
	_, err := l.cfg.Conn.PublishDurable(ctx, bus.Durable{
		Subject: topology.ReportSubject(l.cfg.Address, r.Kind),
		ID:      reportID(l.cfg.Address.Server, r),
		Data:    r.Data,
	})
	if fault.Is(err, fault.Invalid) {
		l.cfg.Log.Error().Err(err).Uint64(logs.Sequence, r.Sequence).Msg("report given up")
		return nil // too large for the bus, and it would hold up all behind it
	}
	if err == nil {
		l.sent.add(r, time.Now())
	}
	return err
}

// reportID names a report by what it says: a journal that was lost or set back counts from
// an earlier number again, and the bus must not take what it says then for a repeat.
func reportID(server string, r Report) string {
	digest := sha256.Sum256(r.Data)
	return server + "-" + strconv.FormatUint(r.Sequence, 10) + "-" + hex.EncodeToString(digest[:12])
}

// Flush gives the reports that wait a last chance.
func (l *Link) Flush(ctx context.Context) error { return l.publishWaiting(ctx) }

// beat says that the server lives, every interval.
func (l *Link) beat(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.BeatInterval)
	defer tick.Stop()
	for {
		if err := l.beatOnce(); err != nil {
			l.cfg.Log.Debug().Err(err).Msg("beat lost")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// reasonBytes is how much of a reason a beat carries.
const reasonBytes = 256

func (l *Link) beatOnce() error {
	if !l.cfg.Conn.Connected() {
		return nil
	}
	l.sent.connected(time.Now())
	p, err := l.cfg.Door.Beat()
	if err != nil {
		return err
	}
	data, err := proto.Marshal(&reportv1.Beat{
		ServerId: l.cfg.Address.Server, BootId: l.cfg.BootID, SessionId: l.cfg.SessionID, Hostname: l.cfg.Hostname,
		DocumentEpoch: max(p.Place.Epoch, 1), DocumentGeneration: p.Place.Generation, DocumentMark: p.Place.Mark,
		ExecutorVersion: l.cfg.Version, OutboxLength: uint32(p.Outbox),
		State: p.State, Code: p.Code, Reason: strings.ToValidUTF8(p.Reason[:min(len(p.Reason), reasonBytes)], ""),
	})
	if err != nil {
		return err
	}
	return l.cfg.Conn.Publish(topology.BeatSubject(l.cfg.Address), data)
}

const (
	liveEvery = time.Second // between two words about one step of a task
	liveTasks = 512         // how many steps are remembered for that
)

// Progress tells how far a task is: each step when it begins, and how much of it is done at most once a second. It does
// not block, and may be lost.
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
