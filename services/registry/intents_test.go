package registry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAnIntentIsAcceptedInOneBatchWithItsChanges(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	one, two := s.server("one"), s.server("two")

	r := s.accepted(topology.VerbInstall, install("web", on("one", "two")))

	if r.Changed != 2 || len(r.ServerIds) != 2 {
		t.Errorf("changed %d servers, named %v; want 2", r.Changed, r.ServerIds)
	}
	answer := s.facts(ledger.Intent, r.Id)
	want := append(
		s.facts(ledger.Instance, ledger.Key(one, "web")),
		s.facts(ledger.Instance, ledger.Key(two, "web"))...)
	if diff := cmp.Diff([]string{"wanted", "wanted"}, names(want)); diff != "" {
		t.Fatal(diff)
	}
	for _, f := range want {
		if f.Sequence < answer[0].Sequence-2 || f.Cause != ledger.CausedByIntent(r.Id) || f.Actor != "alice" {
			t.Errorf("fact at %d by %s because of %s; want it in one batch with the answer at %d", f.Sequence, f.Actor,
				f.Cause, answer[0].Sequence)
		}
	}
}

// counts is the counts in an answer.
type counts struct{ Changed, Already, PassedOver uint32 }

func countsOf(r *intentv1.Record) counts { return counts{r.Changed, r.Already, r.PassedOver} }

func TestTwoRegistriesNeverDecideAnIntentTwice(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	for n := range 5 {
		s.server(fmt.Sprintf("server-%d", n))
	}
	var ids []string
	for range 40 { // all change the same servers, so that their guards conflict
		ids = append(ids, s.publish("install", install("web", &intentv1.Selector{All: true})),
			s.publish("remove", remove("web", &intentv1.Selector{All: true})))
	}
	for _, id := range ids {
		s.outcome(id)
		if have := s.facts(ledger.Intent, id); len(have) != 1 {
			t.Errorf("intent %s has the facts %v; want one", id, names(have))
		}
	}
	if have := s.r.follower.Misfits(); have != 0 {
		t.Errorf("%d facts did not fit; want none, since every one was guarded", have)
	}
}

// fleet records n enrolled servers of linux/amd64 without enrolling them.
func (s *site) fleet(n int) {
	s.t.Helper()
	for done := 0; done < n; {
		var drafts []ledger.Draft
		for ; done < n && len(drafts) < 900; done++ {
			id := ident.New()
			drafts = append(
				drafts,
				fact(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprintf("server-%d", done), Cell: "main"}),
				fact(ledger.Server, id, &serverv1.Enrolled{
					PublicKey: "key",
					Sysinfo:   &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
				}),
			)
		}
		s.append(drafts...)
	}
}

func TestALargeIntentIsRecordedInPartsWithItsAnswerLast(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const n = 2300
	s.fleet(n)

	r := s.accepted("install", install("web", &intentv1.Selector{All: true}))

	if r.Changed != n || len(r.ServerIds) != 1000 {
		t.Errorf("changed %d and named %d; want %d and 1000", r.Changed, len(r.ServerIds), n)
	}
	have := 0
	s.r.follower.Read(func() { have = s.r.records.View.InstancesOn("web") })
	if have != n {
		t.Errorf("%d instances when the answer is there; want %d", have, n)
	}
	if again := s.accepted("install", install("web", &intentv1.Selector{All: true})); again.Already != n {
		t.Errorf("repeated: %+v; want %d already", countsOf(again), n)
	}
}

func TestALargeIntentIsCompletedWhileItsInstancesChange(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const n = 1200
	s.fleet(n)
	s.accepted("install", install("web", &intentv1.Selector{All: true}))
	s.image("web", "2.0.0", "release")
	var some []*instancev1.Instance
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if len(some) < 200 {
				some = append(some, proto.CloneOf(i))
			}
		}
	})
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		for _, i := range some {
			seen := &instancev1.Observed{InstanceId: i.Id, Health: instancev1.Health_HEALTH_BAD, Reason: "starting"}
			s.appendAsync(fact(ledger.Instance, ledger.Key(i.ServerId, "web"), seen))
		}
	}()
	r := s.accepted("upgrade", upgrade("web", "2.0.0", &intentv1.Selector{All: true}))
	<-busy
	if r.Changed != n {
		t.Errorf("changed %d; want %d", r.Changed, n)
	}
	if have := s.facts(ledger.Intent, r.Id); len(have) != 1 {
		t.Errorf("the intent has the facts %v", names(have))
	}
}

func TestAnOldIntentIsFoundInTheLedger(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	r := s.accepted("remove", remove("web", on("one")))
	have, err := s.r.lookup.Past(context.Background(), r.Id)
	if err != nil || have.State != intentv1.State_STATE_ACCEPTED || have.Changed != 1 {
		t.Errorf("have %v, %v", have, err)
	}
	if got := s.code("GetIntent", &registryv1.GetIntentRequest{IntentId: ident.New()}); got != "NOT_FOUND" {
		t.Errorf("an unknown intent: %v", got)
	}
}

func TestAnIntentIsFoundByAPrefixThatNoOtherHas(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	first, second := "01a20a65-0000-7000-8000-000000000001", "01a20a65-0000-7000-8000-f00000000001"
	for _, id := range []string{first, second} {
		s.publishAs(id, "remove", remove("web", on("one")))
		s.outcome(id)
	}
	prefix := &registryv1.GetIntentRequest{IntentId: second[:25]}
	r, err := ask[*registryv1.GetIntentResponse](s, "GetIntent", prefix)
	if err != nil || r.GetIntent().GetId() != second {
		t.Errorf("the start of one id: have %v, %v", r, err)
	}
	_, err = ask[*registryv1.GetIntentResponse](s, "GetIntent", &registryv1.GetIntentRequest{IntentId: first[:20]})
	if text := fmt.Sprint(err); codeOf(err) != code.Ambiguous || !strings.Contains(text, first) ||
		!strings.Contains(text, second) {
		t.Errorf("the start of two ids: %v", err)
	}
	for prefix, want := range map[string]string{"ffffffff": code.NotFound, first[:7]: code.Malformed} {
		if got := s.code("GetIntent", &registryv1.GetIntentRequest{IntentId: prefix}); got != want {
			t.Errorf("%q: %v, want %s", prefix, got, want)
		}
	}
}

func TestAnIntentThatNeverArrivedIsCalledSo(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	_, err := ask[*registryv1.GetIntentResponse](s, "GetIntent", &registryv1.GetIntentRequest{IntentId: ident.New()})
	if codeOf(err) != code.NotFound || !strings.Contains(fmt.Sprint(err), "is not stored") {
		t.Errorf("%v, want that it is not stored", err)
	}
}

func TestAnIntentThatIsDeliveredAgainIsOnlyAcknowledged(t *testing.T) {
	t.Parallel()
	s, one := installed(t, "web")
	id := ident.New()
	m := bus.Message{
		Subject:   topology.IntentSubject("remove", "alice", id),
		Delivered: 1,
		Header:    map[string][]string{"Content-Type": {"application/json"}},
		Data:      []byte(`{"remove":{"agent":"web","on":{"servers":["one"]}}}`),
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		if err := s.r.intents.Handle(ctx, m); err != nil {
			t.Fatal(err)
		}
		m.Delivered++
	}
	polltest.Eventually(t, "it is decided", func() bool { return s.r.lookup.Recent(id) != nil })
	have := names(s.facts(ledger.Instance, ledger.Key(one, "web")))
	if diff := cmp.Diff([]string{"wanted", "unwanted"}, have); diff != "" {
		t.Error(diff)
	}
}

// The view drops old intents. A large one that is delivered again after that must not be done again:
// its changes would be in the ledger before its answer is refused.
func TestALargeIntentThatLeftTheViewIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	all := &intentv1.Selector{All: true}
	s.fleet(topology.MaxBatch + 100)
	data, err := protojson.Marshal(install("web", all))
	if err != nil {
		t.Fatal(err)
	}
	id := ident.New()
	m := bus.Message{
		Subject:   topology.IntentSubject("install", "alice", id),
		Delivered: 1,
		Data:      data,
		Header:    map[string][]string{"Content-Type": {"application/json"}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.r.intents.Handle(ctx, m); err != nil {
		t.Fatal(err)
	}
	s.accepted("remove", remove("web", all))
	for range 11 { // more than are kept
		var drafts []ledger.Draft
		for range topology.MaxBatch {
			drafts = append(drafts, fact(ledger.Intent, ident.New(), &intentv1.Accepted{Intent: &intentv1.Intent{}}))
		}
		s.append(drafts...)
	}
	if s.r.lookup.Recent(id) != nil {
		t.Fatal("the view still knows the intent")
	}

	if err := s.r.intents.Handle(ctx, m); err != nil {
		t.Fatal(err)
	}
	wanted := 0
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.Wanted != nil {
				wanted++
			}
		}
	})
	if wanted != 0 {
		t.Errorf("%d instances are wanted again; want none", wanted)
	}
}

// A removal right after an installation removes all of it. An intent that is accepted on a view that
// lags would silently pass over the instances that the view lacks.
func TestAnIntentIsDecidedOnAllEarlierDecisions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const n = topology.MaxBatch + 100
	s.fleet(n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var last string
	for _, c := range [][2]string{
		{"install", `{"at_once":true,"install":{"agent":"web","on":{"all":true}}}`},
		{"remove", `{"at_once":true,"remove":{"agent":"web","on":{"all":true}}}`},
	} {
		last = ident.New()
		m := bus.Message{
			Subject:   topology.IntentSubject(c[0], "alice", last),
			Delivered: 1,
			Data:      []byte(c[1]),
			Header:    map[string][]string{"Content-Type": {"application/json"}},
		}
		if err := s.r.intents.Handle(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.outcome(last); r.Changed != n {
		t.Errorf("%+v; want %d changed", countsOf(r), n)
	}
}
