package forecast

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	// partSize is how many targets a part of a plan has.
	partSize = 2000
	// lateWithin is the mean time after which a late fault shows.
	lateWithin = 3 * time.Minute
	// longest is when a simulated rollout is given up.
	longest = 30 * 24 * time.Hour
)

// happening is something that happens to a server at a time.
type happening struct {
	at     time.Time
	number int // the order of happenings at the same time
	server int
	event  rollout.Event
	step   int  // the step of its changes, from 0, that begins; with 0 the event happens
	frees  bool // the change of another one ends there; nothing else happens
}

type agenda []happening

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].number < a[j].number
}
func (a *agenda) Push(x any) { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// simulation is a world in motion.
type simulation struct {
	World
	random  *rand.Rand
	begin   time.Time
	now     time.Time
	agenda  agenda
	number  int
	index   map[string]int // servers by id
	book    rollout.Book
	touched int
	broken  map[int]bool
	absent  map[int]bool
	works   map[[2]string][2]int // by field and value: how many work, and how many there are
	busy    map[int]bool
	atOnce  int          // the most that were busy at once
	other   map[int]bool // the servers that are under way by others
	beside  int          // how many changes of others take slots in turn with the rollout's
	kept    *keep.Tally  // by the groups of standing budgets
	slots   slots
}

// Run runs a world to the end of its rollout. It approves every wave at once. It returns the refusal of a strategy
// that cannot be met.
func Run(w World) (Result, error) {
	begin := time.Unix(0, 0)
	if !w.Begin.IsZero() {
		begin = w.Begin
	}
	s := &simulation{
		World: w, random: rand.New(rand.NewPCG(w.Seed, 1)), begin: begin, now: begin, index: map[string]int{},
		broken: map[int]bool{}, absent: map[int]bool{}, busy: map[int]bool{}, kept: keep.NewTally(),
		other: map[int]bool{}, beside: w.Beside,
	}
	if w.From != nil {
		s.begin, s.now = w.From.Now, w.From.Now
	}
	s.crowd()
	if w.From != nil {
		s.resume()
		return s.run(), nil
	}
	var candidates []rollout.Candidate
	for i, server := range w.Servers {
		s.index[server.ServerID] = i
		candidates = append(candidates, server.Candidate)
		if server.Dead {
			s.absent[i] = true
			s.book.Apply(server.ServerID, rollout.Event{Kind: rollout.Away, At: begin})
		}
		s.scheduleFaults(i)
	}
	s.Strategy = rollout.Filled(w.Strategy)
	layout, err := rollout.Waves(candidates, s.Strategy, w.ID)
	if err != nil {
		return Result{}, err
	}
	s.plan(layout)
	s.count()
	return s.run(), nil
}

func (s *simulation) plan(l rollout.Layout) {
	parts := max(1, (len(l.Placements)+partSize-1)/partSize)
	for n := range parts {
		p := &rolloutv1.Planned{
			Part: uint32(n) + 1, Parts: uint32(parts), Strategy: s.Strategy, Waves: l.Waves, Owed: l.Owed,
			Undoes: s.Undoes,
		}
		for _, c := range l.Placements[n*partSize : min(len(l.Placements), (n+1)*partSize)] {
			p.Targets = append(p.Targets, &rolloutv1.Target{ServerId: c.ServerID, Wave: c.Wave})
		}
		s.fold(p)
	}
}

func (s *simulation) fold(body proto.Message) {
	f := ledger.Fact{Noun: ledger.Rollout, Key: s.ID, Body: body, At: s.now, Actor: "forecast"}
	if _, approves := body.(*rolloutv1.Approved); approves {
		f.Actor = "forecast/approver" // an approval may have to come from another actor
	}
	if !s.book.Fold(f) {
		panic(fmt.Sprintf("forecast: %s does not fit: %v", f.Name(), s.book.Rollout))
	}
}

// run lets things happen until the rollout ends or nothing more happens.
func (s *simulation) run() Result {
	for s.now.Sub(s.begin) < longest && !s.stopped() {
		d := s.decide()
		if s.book.Rollout.State != rolloutv1.State_STATE_RUNNING {
			break
		}
		if wave := noun.Current(s.book.Rollout); wave > 0 && !d.Acts() && s.approves(wave) {
			s.fold(&rolloutv1.Approved{Wave: wave})
			continue
		}
		if !s.next(d.Next) {
			break
		}
	}
	r := s.book.Rollout
	result := Result{State: r.State, Took: s.now.Sub(s.begin), Halt: r.Reason, Touched: s.touched, AtOnce: s.atOnce}
	if r.State == rolloutv1.State_STATE_HALTED {
		result.Wave = noun.Current(r)
	}
	for t := range s.book.Targets() {
		switch t.State {
		case rolloutv1.TargetState_TARGET_STATE_BROKEN:
			result.Broken++
		case rolloutv1.TargetState_TARGET_STATE_OWED, rolloutv1.TargetState_TARGET_STATE_PENDING:
			result.Owed++
		}
	}
	return result
}

// stopped reports whether the run is to end early.
func (w World) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// approves reports whether a wave waits for an approval.
func (s *simulation) approves(wave uint32) bool {
	w := noun.Wave(s.book.Rollout, wave)
	return w.OpenedAt == nil && w.ApprovedBy == "" && s.book.Rollout.UntilWave == 0
}

// next goes on to the next happening, or to a time if that is earlier. It reports false when there is neither.
func (s *simulation) next(wake time.Time) bool {
	if len(s.agenda) == 0 && wake.IsZero() {
		return false
	}
	if len(s.agenda) == 0 || !wake.IsZero() && wake.Before(s.agenda[0].at) {
		s.now = wake
		return true
	}
	h := heap.Pop(&s.agenda).(happening)
	s.now = h.at
	s.happen(h)
	return true
}

// decide does what the engine decides, until there is nothing to do.
func (s *simulation) decide() rollout.Decision {
	for {
		input := s.book.Input(s.now)
		input.Field = func(server, field string) string { return s.Servers[s.index[server]].Fields[field] }
		input.Works = func(server string) bool { return s.working(s.index[server]) }
		input.Working = func(field, value string) (int, int) {
			n := s.works[[2]string{field, value}]
			return n[0], n[1]
		}
		input.Standing = s.standing
		if s.Closed != nil {
			input.Closed = func(server string) (time.Time, string) { return s.Closed(server, s.now) }
		}
		d := rollout.Decide(input)
		basis := &rolloutv1.Basis{At: timestamppb.New(s.now)}
		switch {
		case d.Open > 0:
			s.fold(&rolloutv1.Opened{Wave: d.Open, Basis: basis})
		case d.Pass > 0:
			s.fold(&rolloutv1.Passed{Wave: d.Pass, Basis: basis})
		case len(d.Release) > 0:
			s.fold(&rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release, Basis: basis, Step: d.Step})
			for _, id := range d.Release {
				s.release(s.index[id])
			}
		case len(d.Silence) > 0:
			s.fold(&rolloutv1.Silenced{ServerIds: d.Silence, Basis: basis})
		case d.Halt != nil:
			s.fold(&rolloutv1.Halted{Wave: d.Wave, Reason: d.Halt, Basis: basis})
			return d
		case d.Succeed:
			s.fold(&rolloutv1.Succeeded{Owed: d.Owed, Basis: basis})
			return d
		default:
			return d
		}
	}
}
