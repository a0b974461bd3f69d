package bus

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// modelMessage is a message as the modelled stream sees it.
type modelMessage struct {
	subject, id string
	guard       string // empty means none
	expected    uint64
	at          time.Time
	ours        bool // by the writer under test, and not by another one
}

// modelStream is a stream as nats-server keeps it: ids within a window, guards, atomic
// batches. Answers get lost, requests get lost or come late, other writers are faster.
type modelStream struct {
	rng       *rand.Rand
	faulty    bool // requests and answers get lost
	idFirst   bool // a replicated stream looks at the id of a single message first, a single server at the guard
	rivals    bool // other writers write
	rivalFact []modelMessage

	mu     sync.Mutex
	stored []modelMessage
	late   [][]modelMessage // requests that are still on their way
}

const modelWindow = 2 * time.Minute

func (s *modelStream) duplicate(id string) uint64 {
	for i := len(s.stored) - 1; i >= 0; i-- {
		if s.stored[i].id == id && time.Since(s.stored[i].at) < modelWindow {
			return uint64(i + 1)
		}
	}
	return 0
}

func (s *modelStream) sequenceOf(id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.duplicate(id)
}

// setGuards sets guards as a view has them that holds the stream, or all of it but the end.
func (s *modelStream) setGuards(drafts []ledger.Draft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := max(0, len(s.stored)-s.rng.IntN(4)/2)
	for i := range drafts {
		if g := &drafts[i].Guard; g.Subject != "" {
			g.Sequence = s.lastBefore(g.Subject, end)
		}
	}
}

// lastBefore returns the last sequence below end on a guard's subject.
func (s *modelStream) lastBefore(guard string, end int) uint64 {
	for i := end - 1; i >= 0; i-- {
		if topology.Matches(guard, s.stored[i].subject) {
			return uint64(i + 1)
		}
	}
	return 0
}

func (s *modelStream) guardHolds(m modelMessage) bool {
	return m.guard == "" || s.lastBefore(m.guard, len(s.stored)) == m.expected
}

func (s *modelStream) push(m modelMessage) uint64 {
	m.at = time.Now()
	s.stored = append(s.stored, m)
	return uint64(len(s.stored))
}

// pushOnce stores what another writer says, which does not say it twice.
func (s *modelStream) pushOnce(m modelMessage) {
	if !slices.ContainsFunc(s.stored, func(other modelMessage) bool { return other.id == m.id }) {
		s.push(m)
	}
}

func refused(code int) error {
	err := &apiError{code, "refused"}
	return fault.New(kindOf(400, err), "%w", err)
}

// apply does what the server does with a request.
func (s *modelStream) apply(msgs []modelMessage) (uint64, error) {
	if len(msgs) == 1 {
		m := msgs[0]
		if at := s.duplicate(m.id); at > 0 && (s.idFirst || s.guardHolds(m)) {
			return at, nil
		}
		if !s.guardHolds(m) {
			return 0, refused(codeWrongLastSequence)
		}
		return s.push(m), nil
	}
	staged := map[string]bool{}
	for _, m := range msgs {
		if staged[m.id] || s.duplicate(m.id) > 0 {
			return 0, refused(codeBatchDuplicate)
		}
		if !s.guardHolds(m) {
			return 0, refused(codeWrongLastSequence)
		}
		staged[m.id] = true
	}
	var last uint64
	for _, m := range msgs {
		last = s.push(m)
	}
	return last, nil
}

// meanwhile runs what happens beside the call.
func (s *modelStream) meanwhile() {
	for len(s.late) > 0 && s.rng.IntN(3) == 0 {
		i := s.rng.IntN(len(s.late))
		msgs := s.late[i]
		s.late = append(s.late[:i:i], s.late[i+1:]...)
		if time.Since(msgs[0].at) < time.Minute { // the connection that it travels on is closed by then
			_, _ = s.apply(msgs)
		}
	}
	if !s.rivals || s.rng.IntN(2) == 0 {
		return
	}
	from := s.rng.IntN(len(s.rivalFact))
	for _, m := range s.rivalFact[from:min(len(s.rivalFact), from+1+s.rng.IntN(3))] {
		if s.rng.IntN(3) == 0 {
			m.id += "-newer" // another fact on the same subject
		}
		s.pushOnce(m)
	}
}

func (s *modelStream) record(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	request := make([]modelMessage, 0, len(msgs))
	for _, m := range msgs {
		request = append(request, modelled(m))
	}
	return s.exchange(ctx, func() (uint64, error) { return s.apply(request) }, request)
}

func modelled(m *nats.Msg) modelMessage {
	out := modelMessage{subject: m.Subject, id: m.Header.Get(nats.MsgIdHdr), at: time.Now(), ours: true}
	if e := m.Header["Nats-Expected-Last-Subject-Sequence"]; len(e) > 0 {
		out.guard = m.Header["Nats-Expected-Last-Subject-Sequence-Subject"][0]
		out.expected, _ = strconv.ParseUint(e[0], 10, 64)
	}
	return out
}

func (s *modelStream) find(ctx context.Context, m *nats.Msg) (uint64, error) {
	id := m.Header.Get(nats.MsgIdHdr)
	return s.exchange(ctx, func() (uint64, error) { return s.duplicate(id), nil }, nil)
}

var errModel = fault.New(fault.Unavailable, "no answer")

// exchange sends a request that may get lost, or whose answer may.
func (s *modelStream) exchange(ctx context.Context, do func() (uint64, error), request []modelMessage) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meanwhile()
	defer s.meanwhile()
	fate := 9
	if s.faulty {
		fate = s.rng.IntN(10)
	}
	switch fate {
	case 0, 1: // the answer is lost
		_, _ = do()
	case 2: // the request is lost, or the bus was started anew in the middle of a batch
	case 3: // the request comes late
		if request != nil {
			s.late = append(s.late, request)
		}
	case 4: // the process is suspended, or the bus is
		if s.rng.IntN(20) > 0 {
			return do()
		}
		_, _ = do()
		s.sleep(3 * time.Minute)
		return 0, errModel
	default:
		return do()
	}
	wait := time.Millisecond << s.rng.IntN(14)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	s.mu.Lock()
	return 0, errModel
}

func (s *modelStream) sleep(d time.Duration) {
	s.mu.Unlock()
	time.Sleep(d)
	s.mu.Lock()
}
