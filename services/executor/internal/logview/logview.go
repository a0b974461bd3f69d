// Package logview answers requests for the output of agents.
//
// Guarantees:
//
//  1. It answers only in sessions that the registry opened, and only the person for whom it did. The bus lets no
//     other user send those requests, and the registry recorded the person before.
//  2. It sends nothing unasked: each part answers one request, so a viewer who leaves costs nothing more. A session
//     ends IdleFor after the last request, and LastsFor after it was opened.
//  3. At most MostSessions are open at a time; one without a request for quietFor ends for another one. Of a person's
//     requests readsASecond are looked at, whatever session they name. A part has PartBytes at most, a session
//     partsASecond, and all sessions together bytesASecond.
//  4. It reads the output files of agents, also of first installs that were undone, and no other file.
//  5. It covers the secrets that an agent has now. One that the agent had before, and one of which a part was sent
//     before the rest was written, stay.
package logview

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/secret"
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
	marksAPart   = 512
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
	Secrets func(agent string) (map[string]string, error) // in clear, by name
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
	agent  string
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
		actor: q.GetActor(), agent: q.GetAgent(), output: output, opened: now, asked: now,
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

// read answers with the next part of an output. It is safe to run twice: it changes nothing.
func (v *View) read(ctx context.Context, subject string, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
	_, by, err := topology.ParseLogReadSubject(subject)
	if err != nil {
		return nil, err
	}
	s, err := v.session(by)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.turn:
	default:
		return nil, fault.Refusef(fault.Unavailable, code.Busy, "the session has a request under way").
			After(time.Second / partsASecond)
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.await(ctx, int64(q.GetPosition()), min(q.GetWait().AsDuration(), LongestWait)); err != nil {
		return nil, err
	}
	data, next, cut, err := s.output.Read(int64(q.GetPosition()), PartBytes)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Refusef(fault.NotFound, code.NoOutput, "the output is no longer there")
	}
	if err != nil {
		return nil, err
	}
	version, until := s.output.VersionAt(next - int64(len(data)))
	if until < next {
		data, next = data[:int64(len(data))-(next-until)], until
	}
	from := next - int64(len(data))
	var marks []*logv1.Mark
	if q.GetMarks() && len(data) > 0 {
		marks, next = s.marks(from, next, v.cfg.Now())
		data = data[:next-from]
	}
	if err := v.cover(s, from, data); err != nil {
		return nil, err
	}
	if err := v.bytes.WaitN(ctx, len(data)); err != nil {
		return nil, fault.New(fault.Unavailable, "read output: %w", err)
	}
	return &logv1.ReadResponse{Data: data, Position: uint64(next), Cut: cut, Version: version, Marks: marks}, nil
}

// cover hides secrets in a part of an output, also one that begins before the part or ends behind it.
func (v *View) cover(s *session, from int64, data []byte) error {
	values, err := v.cfg.Secrets(s.agent)
	if err != nil || len(values) == 0 || len(data) == 0 {
		return err
	}
	longest := 0
	for _, value := range values {
		longest = max(longest, len(value))
	}
	secret.Cover(data, values)
	around, end, _, err := s.output.Read(max(0, from-int64(longest)), len(data)+2*longest)
	if begin := end - int64(len(around)); err == nil && begin < from && end > from {
		secret.Cover(around, values)
		copy(data, around[from-begin:])
	}
	return err
}

// marks returns by when the bytes between two positions were written, and where the last mark ends.
func (s *session) marks(from, to int64, now time.Time) (marks []*logv1.Mark, until int64) {
	written, until := s.output.WrittenBy(from, to, now, marksAPart)
	for _, k := range written {
		marks = append(marks, &logv1.Mark{End: uint32(k.Position - from), By: timestamppb.New(k.At)})
	}
	return marks, until
}

// await waits for the turn of the next part, and up to wait for output behind a position.
func (s *session) await(ctx context.Context, position int64, wait time.Duration) error {
	look := rate.NewLimiter(rate.Every(lookEvery), 1)
	until, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	for {
		end, err := s.output.End()
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || end != position || look.Wait(until) != nil {
			break
		}
	}
	if err := s.pace.Wait(ctx); err != nil {
		return fault.New(fault.Unavailable, "read output: %w", err)
	}
	return nil
}
