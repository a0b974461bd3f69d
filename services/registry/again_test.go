package registry

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

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
