package link

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

const (
	// reasonBytes is how much of a reason a beat carries.
	reasonBytes = 256
	// longestSpacing is the longest time between two beats, whatever is asked for.
	longestSpacing = time.Minute
)

// spacing is how often beats are sent when nothing changes.
type spacing struct {
	asked atomic.Int64  // the nanoseconds between two beats that the registry asked for last; 0 before that
	now   wakeup.Signal // a beat is due whatever it says
}

func newSpacing() spacing { return spacing{now: wakeup.New()} }

// every returns the time between two beats that say the same.
func (l *Link) every() time.Duration {
	return max(l.cfg.BeatInterval, min(time.Duration(l.spacing.asked.Load()), longestSpacing))
}

// beat looks at each interval whether a beat is due: it says something else than the last one, the time that the
// registry asked for has passed, the connection is back, or the registry asks for one.
func (l *Link) beat(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.BeatInterval)
	defer tick.Stop()
	var last *reportv1.Beat
	var at time.Time
	for {
		if !l.cfg.Conn.Connected() {
			last = nil
		} else if next, err := l.nextBeat(); err != nil {
			l.cfg.Log.Debug().Err(err).Msg("no beat")
		} else if last == nil || time.Since(at) > l.every()-l.cfg.BeatInterval/2 || !saysTheSame(last, next) {
			last, at = next, time.Now()
			if err := l.send(next); err != nil {
				l.cfg.Log.Debug().Err(err).Msg("beat lost")
				last = nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.spacing.now.C():
			last = nil
		case <-tick.C:
		}
	}
}

// saysTheSame reports whether two beats differ in nothing but times.
func saysTheSame(a, b *reportv1.Beat) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	for _, beat := range []*reportv1.Beat{a, b} {
		beat.SentAt, beat.AgentsAgeMs = nil, min(beat.AgentsAgeMs, 1)
	}
	return proto.Equal(a, b)
}

func (l *Link) nextBeat() (*reportv1.Beat, error) {
	l.sent.connected(time.Now())
	p, err := l.cfg.Backend.Beat()
	if err != nil {
		return nil, err
	}
	return &reportv1.Beat{
		ServerId: l.cfg.Address.Server, BootId: l.cfg.BootID, SessionId: l.cfg.SessionID, Hostname: l.cfg.Hostname,
		DocumentEpoch: max(p.Place.Epoch, 1), DocumentGeneration: p.Place.Generation, DocumentMark: p.Place.Mark,
		ExecutorVersion: l.cfg.Version, OutboxLength: uint32(p.Outbox),
		AgentsSum: uint64(p.Agents), AgentsAgeMs: p.age(time.Now()), ResetId: p.Reset,
		SentAt: timestamppb.Now(), Every: durationpb.New(l.every()),
		State: p.State, Code: p.Code,
		Reason: visible.Line(strings.ToValidUTF8(p.Reason[:min(len(p.Reason), reasonBytes)], "")),
	}, nil
}

func (l *Link) send(b *reportv1.Beat) error {
	data, err := proto.Marshal(b)
	if err != nil {
		return err
	}
	return l.cfg.Conn.Publish(topology.BeatSubject(l.cfg.Address), data)
}

// hearAnswers follows the registry's answers to this server's beats, until ctx is done. Another server can have an
// answer to its own request delivered here; none of those names this server first. While beats are refused, they are
// sent at the interval, so that the end of the refusals is noticed soon.
func (l *Link) hearAnswers(ctx context.Context) error {
	stop, err := l.cfg.Conn.Subscribe(topology.AnswerSubject(l.cfg.Address), func(m bus.Message) {
		a := &reportv1.BeatAnswer{}
		if bus.Unmarshal(m, a) != nil || a.GetServerId() != l.cfg.Address.Server {
			return
		}
		l.spacing.asked.Store(int64(a.GetEvery().AsDuration()))
		if a.Refusal == nil {
			l.spacing.now.Wake()
		} else if l.cfg.Refused != nil {
			l.cfg.Refused(a.Refusal)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return ctx.Err()
}
