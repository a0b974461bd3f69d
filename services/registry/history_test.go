package registry

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
)

// sendBeat publishes a beat.
func (s *site) sendBeat(b *reportv1.Beat) {
	s.t.Helper()
	data, err := proto.Marshal(b)
	if err == nil {
		err = s.ops.Publish(topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: b.ServerId}), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// beatUntil publishes a beat until a condition holds.
func (s *site) beatUntil(what string, b *reportv1.Beat, so func() bool) {
	s.t.Helper()
	polltest.Eventually(s.t, what, func() bool { s.sendBeat(b); return so() })
}

func (s *site) counted(id, fact string) (n int) {
	for _, name := range names(s.facts(ledger.Server, id)) {
		if name == fact {
			n++
		}
	}
	return n
}

func TestAServerBeyondTheEndOfTheLedgerIsAheadUntilItsLossIsAccepted(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	ahead := &reportv1.Beat{ServerId: id, BootId: "boot", DocumentEpoch: 3, DocumentGeneration: 5000, DocumentMark: 7}
	s.beatUntil("it is ahead", ahead, func() bool { return s.get(id).Ahead != nil })
	for range 20 {
		s.sendBeat(ahead)
	}
	status := must[*registryv1.GetRestoreStatusResponse](s, "GetRestoreStatus", &registryv1.GetRestoreStatusRequest{})
	if len(status.Losses) != 1 || status.Losses[0].Server.Ahead.Place.Generation != 5000 {
		t.Fatalf("lost: %v", status.Losses)
	}
	stale := &registryv1.AcceptedLoss{ServerId: id, Place: &serverv1.DocumentPlace{Epoch: 3, Generation: 4999, Mark: 7}}
	q := &registryv1.AcceptRestoreRequest{Losses: []*registryv1.AcceptedLoss{stale}}
	if code := s.code("AcceptRestore", q); code != "STALE_LOSS" {
		t.Errorf("a stale loss is refused with %q", code)
	}
	seen := &registryv1.AcceptedLoss{ServerId: id, Place: status.Losses[0].Server.Ahead.Place}
	r := must[*registryv1.AcceptRestoreResponse](s, "AcceptRestore",
		&registryv1.AcceptRestoreRequest{Losses: []*registryv1.AcceptedLoss{seen}})
	if got := r.Servers[0]; got.Epoch != 4 || got.Ahead != nil {
		t.Errorf("accepted, it is %v", got)
	}
	for range 20 {
		s.sendBeat(ahead) // the server has not read its document yet
	}
	s.sweeps(1)
	if n := s.counted(id, "ahead"); n != 1 {
		t.Errorf("%d facts record that it is ahead", n)
	}
	q = &registryv1.AcceptRestoreRequest{Losses: []*registryv1.AcceptedLoss{seen}}
	if code := s.code("AcceptRestore", q); code != "NOT_AHEAD" {
		t.Errorf("one that is not ahead is refused with %q", code)
	}
	last := s.facts(ledger.Server, id)
	if i := slices.IndexFunc(last, func(f ledger.Fact) bool { return f.Name() == "epoch-raised" }); i < 0 ||
		last[i].Actor != "alice" {
		t.Errorf("the epoch was raised without an actor: %v", names(last))
	}
}

// The ledger has grown past what a server applied before it returned: the fact at that place decides.
func TestTheFactAtItsSequenceDecidesWhetherAServerIsAhead(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, two := s.server("one"), s.server("two")
	enrolled := s.facts(ledger.Server, one)[1]
	place := &reportv1.Beat{
		ServerId: one, BootId: "boot", DocumentEpoch: 1, DocumentGeneration: enrolled.Sequence,
		DocumentMark: ledger.Mark(
			enrolled,
		),
		Code: "PLACE_UNPROVEN", State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED,
	}
	s.beatUntil("its place is confirmed", place, func() bool { return s.get(one).Confirmed != nil })
	other := &reportv1.Beat{
		ServerId: two, BootId: "boot", DocumentEpoch: 1, DocumentGeneration: enrolled.Sequence, DocumentMark: 1,
		Code: "PLACE_UNPROVEN", State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED,
	}
	s.beatUntil("it is ahead", other, func() bool { return s.get(two).Ahead != nil })
	if s.get(one).Ahead != nil || s.counted(one, "place-confirmed") != 1 {
		t.Errorf("the facts about a server in step are %v", names(s.facts(ledger.Server, one)))
	}
}

func TestAChangeOfConditionIsOneFact(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	suspended := &reportv1.Beat{
		ServerId: id, BootId: "boot", Code: "BAD_TOMBSTONE", Reason: "forged",
		State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED,
	}
	s.beatUntil("it is suspended", suspended, func() bool { return s.get(id).Condition.GetCode() == "BAD_TOMBSTONE" })
	for _, code := range []string{"A", "B", "C", "A", "B", "C"} { // a server whose condition changes with each beat
		suspended.Code = code
		s.sendBeat(suspended)
		time.Sleep(20 * time.Millisecond)
	}
	if n := s.counted(id, "condition-changed"); n != 1 {
		t.Errorf("%d facts", n)
	}
	well := &reportv1.Beat{ServerId: id, BootId: "boot", State: serverv1.ExecutorState_EXECUTOR_STATE_RUNNING}
	s.beatUntil("it is well again", well, func() bool {
		s.skew.Add(int64(2 * time.Minute)) // each time, because the first change may be to the last code above
		return s.get(id).Condition.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_RUNNING
	})
}

func TestTwoMachinesWithOneIdentityAreOneFact(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	first := &reportv1.Beat{ServerId: id, BootId: "boot", SessionId: "first", Hostname: "here"}
	second := &reportv1.Beat{ServerId: id, BootId: "other boot", SessionId: "second", Hostname: "there"}
	s.beatUntil("it is two", first, func() bool { s.sendBeat(second); return s.get(id).Duplicate != nil })
	for range 100 {
		s.sendBeat(first)
		s.sendBeat(second)
	}
	if got := s.get(id).Duplicate.Sightings; len(got) != 2 || got[0].Hostname != "here" ||
		got[1].BootId != "other boot" {
		t.Errorf("seen are %v", got)
	}
	if n, m := s.counted(id, "duplicated"), s.counted(id, "online"); n != 1 || m > 2 {
		t.Errorf("%d facts record two executors, and %d that it is online", n, m)
	}
}

func TestServersThatBeatAndAreNotManagedAreListed(t *testing.T) {
	t.Parallel()
	s := start(t)
	stranger := ident.New()
	dead := s.server("dead")
	s.append(fact(ledger.Server, dead, &serverv1.Dead{Lost: true}))
	list := func() map[string]string {
		out := map[string]string{}
		for _, u := range must[*registryv1.ListUnknownServersResponse](s, "ListUnknownServers",
			&registryv1.ListUnknownServersRequest{}).Servers {
			out[u.ServerId] = u.Code + " " + u.Hostname + " " + u.Name
		}
		return out
	}
	s.beatUntil("both are listed", &reportv1.Beat{ServerId: stranger, Hostname: "lost-1"}, func() bool {
		s.sendBeat(&reportv1.Beat{ServerId: dead})
		return len(list()) == 2
	})
	if got := list(); got[stranger] != "UNKNOWN_SERVER lost-1 " || got[dead] != "STILL_RUNS  dead" {
		t.Errorf("listed: %v", got)
	}
	s.skew.Add(int64(2 * beats.UnknownKept))
	polltest.Eventually(t, "a silent sender is dropped", func() bool { return len(list()) == 0 })
}

func TestTheBeatsOfAServerThatIsNotManagedAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	stranger, dead, alive := ident.New(), s.server("dead"), s.server("alive")
	s.append(fact(ledger.Server, dead, &serverv1.Dead{Lost: true}))
	var mu sync.Mutex
	refused := map[string][]string{} // beats that were on their way when a server was forgotten are refused after that
	stop, err := s.ops.Subscribe(topology.AnswerSubjects, func(m bus.Message) {
		r := &reportv1.BeatAnswer{}
		if bus.Unmarshal(m, r) == nil {
			mu.Lock()
			defer mu.Unlock()
			refused[r.ServerId] = append(refused[r.ServerId], r.Refusal.GetCode())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	codes := func(id string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(slices.Clone(refused[id]))
	}
	s.beatUntil("both are refused", &reportv1.Beat{ServerId: stranger}, func() bool {
		s.sendBeat(&reportv1.Beat{ServerId: dead})
		s.sendBeat(&reportv1.Beat{ServerId: alive})
		return len(codes(stranger)) > 0 && len(codes(dead)) > 0
	})
	is := fmt.Sprint(codes(stranger), codes(dead), codes(alive))
	if is != "[UNKNOWN_SERVER] [STILL_RUNS] []" {
		t.Errorf("refused are a stranger, a dead server and one under management: %s", is)
	}
	must[*registryv1.ForgetServerResponse](s, "ForgetServer", &registryv1.ForgetServerRequest{Server: dead, Leak: true})
	polltest.Eventually(t, "it hears that it was forgotten", func() bool {
		return slices.Contains(codes(dead), "SERVER_REMOVED")
	})
}

// A clock that differs is shown and is a difference while the beats say so, without a fact.
func TestAServerWhoseClockDiffersIsShownWithIt(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	beat := func(ahead time.Duration) *reportv1.Beat {
		return &reportv1.Beat{ServerId: id, BootId: "boot", SentAt: timestamppb.New(time.Now().Add(ahead))}
	}
	differs := func() *registryv1.Difference {
		for _, d := range s.check(&registryv1.CheckFleetRequest{}).Differences {
			if d.Cause == code.ClockSkew {
				return d
			}
		}
		return nil
	}
	polltest.Eventually(t, "it is online by a clock that agrees", func() bool {
		s.sendBeat(beat(0))
		return s.counted(id, "online") == 1
	})
	if d := differs(); d != nil || s.get(id).ClockAhead != nil {
		t.Errorf("a clock that agrees: %v, %v", d, s.get(id).ClockAhead)
	}
	facts := len(s.facts(ledger.Server, id))
	polltest.Eventually(t, "it is two hours behind", func() bool {
		s.sendBeat(beat(-2 * time.Hour))
		ahead := s.get(id).ClockAhead.AsDuration()
		return ahead > -2*time.Hour-time.Minute && ahead < -2*time.Hour+time.Minute
	})
	if d := differs(); d == nil || d.Observed != "2h behind" || d.Since == nil {
		t.Errorf("the difference: %v", d)
	}
	polltest.Eventually(t, "it is set right", func() bool {
		s.sendBeat(beat(0))
		return s.get(id).ClockAhead == nil
	})
	if d := differs(); d != nil {
		t.Errorf("a clock that was set right: %v", d)
	}
	if now := len(s.facts(ledger.Server, id)); now != facts {
		t.Errorf("%d facts about the clock", now-facts)
	}
}

// No beat can arrive while the bus is unreachable, not even when it is back before the registry
// notices; and then each server needs its time to connect again.
func TestNoServerIsCalledOfflineBecauseTheBusWasUnreachable(t *testing.T) {
	t.Parallel()
	every := time.Minute
	s := startBeating(t, every)
	id := s.server("one")
	s.firstBeat(id, "boot")
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	s.sweeps(1) // the sweep after the beat is over, and the next one is not soon
	s.bus.Restart(t, func(string) {
		s.skew.Add(int64(2 * presence.Silence(every)))
	})
	for _, later := range []time.Duration{0, presence.Silence(every) + topology.ServerReturns/2} {
		s.pass(later, s.r)
		s.sweeps(1)
		if have := names(s.facts(ledger.Server, id)); slices.Contains(have, "offline") {
			t.Errorf("no beat could arrive, and %s later the facts are %v", later, have)
		}
	}
	s.pass(topology.ServerReturns, s.r)
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
}
