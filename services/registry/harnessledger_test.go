package registry

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// append records facts of other services.
func (s *site) append(drafts ...ledger.Draft) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last := s.appendAsync(drafts...)
	if err := s.r.follower.Wait(ctx, last); err != nil {
		s.t.Fatal(err)
	}
}

// appendAsync records facts of other services and does not wait until the registry folds them.
func (s *site) appendAsync(drafts ...ledger.Draft) uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last, err := s.core.Append(ctx, drafts...)
	if err != nil {
		s.t.Fatalf("append: %v", err)
	}
	return last
}

func fact(noun ledger.Noun, key string, body proto.Message) ledger.Draft {
	return ledger.Free(ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: ident.New(), At: time.Now(), Source: noun.Writer(), Actor: noun.Writer(),
	})
}

// publish publishes an intent and returns its id.
func (s *site) publish(verb string, i *intentv1.Intent) string {
	s.t.Helper()
	id := ident.New()
	s.publishAs(id, verb, i)
	return id
}

// publishAs publishes an intent with an id.
func (s *site) publishAs(id, verb string, i *intentv1.Intent) {
	s.t.Helper()
	data, err := protojson.Marshal(i)
	if err != nil {
		s.t.Fatal(err)
	}
	s.publishRaw(bus.Durable{
		Subject: topology.IntentSubject(verb, "alice", id), Once: true, Type: "application/json", Data: data,
	})
}

func (s *site) publishRaw(d bus.Durable) {
	s.t.Helper()
	if _, err := s.ops.PublishDurable(context.Background(), d); err != nil {
		s.t.Fatalf("publish: %v", err)
	}
}

// outcome waits for the outcome of an intent.
func (s *site) outcome(id string) *intentv1.Record {
	s.t.Helper()
	q := &registryv1.GetIntentRequest{IntentId: id, Wait: durationpb.New(15 * time.Second)}
	for end := time.Now().Add(2 * time.Minute); ; {
		r, err := ask[*registryv1.GetIntentResponse](s, "GetIntent", q)
		if err == nil {
			return r.Intent
		}
		if fault.RefusalOf(err).GetCode() != code.NotFound || time.Now().After(end) {
			s.t.Fatalf("GetIntent: %v", err)
		}
	}
}

// accepted publishes an intent that must be accepted.
func (s *site) accepted(verb string, i *intentv1.Intent) *intentv1.Record {
	s.t.Helper()
	r := s.outcome(s.publish(verb, i))
	if r.State != intentv1.State_STATE_ACCEPTED {
		s.t.Fatalf("%s was refused: %v", verb, fault.Line(r.Refusal))
	}
	return r
}

func on(servers ...string) *intentv1.Selector { return &intentv1.Selector{Servers: servers} }

func install(agent string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{
		AtOnce: true, Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: agent, On: on}},
	}
}

func upgrade(agent, version string, on *intentv1.Selector) *intentv1.Intent {
	choice := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	return &intentv1.Intent{
		AtOnce: true, Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent, On: on, Image: choice}},
	}
}

func remove(agent string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{
		AtOnce: true, Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: agent, On: on}},
	}
}

func decommission(server string, lost bool) *intentv1.Intent {
	return &intentv1.Intent{
		Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{Server: server, Lost: lost}},
	}
}

// pass lets time pass in which registries run: a mere jump of the clock would mean that they stood still.
func (s *site) pass(d time.Duration, registries ...*Registry) {
	for end := s.skew.Load() + int64(d); s.skew.Load() < end; {
		step := func() { s.skew.Add(min(int64(s.beats), end-s.skew.Load())) }
		for _, r := range registries {
			then := step
			step = func() { r.presence.SetClock(then) }
		}
		step()
	}
}

// firstBeat beats until the registry receives it, which it may not do yet when it answers.
func (s *site) firstBeat(id, boot string) {
	s.t.Helper()
	polltest.Eventually(s.t, "its beat arrives", func() bool { s.beat(id, boot); return s.r.hasBeat(id) })
}

// sweeps waits until the registry looked at all servers so often, each time from the beginning.
func (s *site) sweeps(times int) {
	s.t.Helper()
	end := s.r.presence.Sweeps() + times + 1 // one may be under way
	polltest.Eventually(s.t, "all servers are looked at", func() bool { return s.r.presence.Sweeps() >= end })
}

// hasBeat reports whether a registry received a beat of a server.
func (r *Registry) hasBeat(id string) bool {
	return !r.presence.Last(id).At.IsZero()
}
