package logview

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// The bounds of what viewers can have of a server.
const (
	MostSessions = 16
	IdleFor      = time.Minute
	LastsFor     = time.Hour
	PartBytes    = 128 << 10
	LongestWait  = 10 * time.Second

	partsASecond = 10
	readsASecond = 2 * MostSessions * partsASecond // of one person, in any session, that are looked at
	bytesASecond = 1 << 20
	quietFor     = 5 * time.Second        // without a request, a session makes room for another one
	lookEvery    = 100 * time.Millisecond // for new output, while a request waits
)

// Config is what the answers need; all of it must be set but Now.
type Config struct {
	Conn    *bus.Conn
	Address topology.ServerAddress
	Root    layout.Root
	Log     zerolog.Logger
	Now     func() time.Time // nil means time.Now
}

// View answers requests for the output of agents.
type View struct {
	cfg   Config
	bytes *rate.Limiter // of all sessions

	mu       sync.Mutex
	sessions map[string]*session
}

// session is a person who reads the output of an agent.
type session struct {
	actor  string
	output supervise.Output
	opened time.Time
	pace   *rate.Limiter
	turn   chan struct{} // holds a token while no request is answered

	asked time.Time // the last request; guarded by View.mu
}

// New returns what answers from Run on.
func New(cfg Config) *View {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &View{
		cfg: cfg, bytes: rate.NewLimiter(bytesASecond, bytesASecond), sessions: map[string]*session{},
	}
}

// Run answers until ctx is done.
func (v *View) Run(ctx context.Context) error {
	// Reads first: who has opened a session reads at once.
	stopRead, err := bus.AnswerOf(v.cfg.Conn, topology.LogReadsOf(v.cfg.Address),
		func(asked context.Context, subject string, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
			asked, cancel := context.WithCancel(asked)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return v.read(asked, subject, q)
		}, reader, readsASecond)
	if err != nil {
		return err
	}
	defer stopRead()
	stopOpen, err := bus.Answer(v.cfg.Conn, topology.LogOpenSubject(v.cfg.Address), "", v.open)
	if err != nil {
		return err
	}
	defer stopOpen()
	<-ctx.Done()
	return nil
}

// reader returns the person who reads, by the subject. The bus has checked the name, and of the session nothing.
func reader(subject string) string {
	_, r, _ := topology.ParseLogReadSubject(subject) // only such subjects are subscribed to
	return r.Actor
}

// open opens a session. It is safe to run twice.
func (v *View) open(_ context.Context, _ string, q *logv1.OpenRequest) (*logv1.OpenResponse, error) {
	if err := ident.CheckName("agent", q.GetAgent()); err != nil {
		return nil, fault.New(fault.Invalid, "open a log: %w", err)
	}
	if !ident.IsUUID(q.GetSessionId()) || q.GetActor() == "" {
		return nil, fault.New(fault.Invalid, "open a log: no session or no actor")
	}
	output := supervise.Output(v.cfg.Root.Output(q.GetAgent()))
	begin, end, err := startOf(output, q.GetStart())
	if fault.Is(err, fault.NotFound) {
		output = supervise.Output(v.cfg.Root.FailedOutput(q.GetAgent()))
		begin, end, err = startOf(output, q.GetStart())
	}
	if fault.Is(err, fault.NotFound) {
		return nil, noOutput(q.GetAgent())
	}
	if err != nil {
		return nil, err
	}
	if err := v.add(q, output); err != nil {
		return nil, err
	}
	v.cfg.Log.Info().Str(logs.Agent, q.GetAgent()).Str(logs.Actor, q.GetActor()).Msg("output is read")
	return &logv1.OpenResponse{Position: uint64(begin), End: uint64(end)}, nil
}

// startOf returns where a reading begins, and where the output ends.
func startOf(o supervise.Output, from *logv1.Start) (begin, end int64, err error) {
	if end, err = o.End(); err != nil {
		return 0, 0, err
	}
	if at := from.GetPosition(); at <= uint64(end) {
		begin = int64(at) // one behind the end is of another installation of the agent
	}
	if n := from.GetLines(); n > 0 {
		last, err := o.Last(int(n))
		if err != nil {
			return 0, 0, err
		}
		begin = max(begin, last)
	}
	if from.GetSince() != nil {
		since, err := o.Since(from.GetSince().AsTime())
		if err != nil {
			return 0, 0, err
		}
		begin = max(begin, since)
	}
	return begin, end, nil
}

func noOutput(agent string) error {
	return fault.Refusef(fault.NotFound, code.NoOutput, "agent %s has written no output", agent)
}

func (v *View) add(q *logv1.OpenRequest, output supervise.Output) error {
	now := v.cfg.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(now)
	if _, again := v.sessions[q.GetSessionId()]; !again && !v.makeRoom(now) {
		return fault.Refusef(fault.Conflict, code.TooManyReaders,
			"output of agents is read in %d sessions, which is the most", MostSessions)
	}
	s := &session{
		actor: q.GetActor(), output: output, opened: now, asked: now,
		pace: rate.NewLimiter(partsASecond, 1), turn: make(chan struct{}, 1),
	}
	s.turn <- struct{}{}
	v.sessions[q.GetSessionId()] = s
	return nil
}

// forget drops the sessions that ended. The caller holds mu.
func (v *View) forget(now time.Time) {
	for id, s := range v.sessions {
		if now.Sub(s.asked) > IdleFor || now.Sub(s.opened) > LastsFor {
			delete(v.sessions, id)
		}
	}
}

// makeRoom reports whether one session more may be open. A session whose viewer seems to be done ends for it: a reading
// that has reached the end says nothing, and would keep its place for IdleFor. The caller holds mu.
func (v *View) makeRoom(now time.Time) bool {
	if len(v.sessions) < MostSessions {
		return true
	}
	oldest, since := "", now.Add(-quietFor)
	for id, s := range v.sessions {
		if len(s.turn) > 0 && s.asked.Before(since) {
			oldest, since = id, s.asked
		}
	}
	delete(v.sessions, oldest)
	return oldest != ""
}

// session returns the open session of a reader.
func (v *View) session(r topology.LogReader) (*session, error) {
	now := v.cfg.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(now)
	s := v.sessions[r.Session]
	if s == nil || s.actor != r.Actor {
		return nil, fault.Refusef(fault.NotFound, code.LogNotOpen, "no session %.36q of %.64q is open",
			r.Session, r.Actor)
	}
	s.asked = now
	return s, nil
}
