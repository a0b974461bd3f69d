package registry

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

// herd is servers that beat together, but for the first few, which are silent.
type herd struct {
	s      *site
	ids    []string
	silent atomic.Int64
	// starved is set when a busy machine let the herd itself fall silent; then a fact that says so is true.
	starved atomic.Bool
}

// startHerd enrols servers and lets them beat five times in an interval, until the test ends.
func startHerd(s *site, size int) *herd {
	h := &herd{s: s}
	for n := range size {
		h.ids = append(h.ids, s.server(fmt.Sprint("herd-", n)))
	}
	bustest.Go(s.t, func(ctx context.Context) error {
		tick := time.NewTicker(s.beats / 5)
		defer tick.Stop()
		for last := time.Now(); ; {
			if time.Since(last) > 2*s.beats {
				h.starved.Store(true)
			}
			last = time.Now()
			for _, id := range h.ids[h.silent.Load():] {
				if err := s.oneBeat(id, "boot"); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	h.until("all are online", func(r *registryv1.ListServersResponse) bool {
		return h.count(r, serverv1.Presence_PRESENCE_ONLINE) == size
	})
	return h
}

// until waits until the list of servers is as wanted.
func (h *herd) until(what string, is func(*registryv1.ListServersResponse) bool) {
	h.s.t.Helper()
	polltest.Eventually(h.s.t, what, func() bool {
		return is(must[*registryv1.ListServersResponse](h.s, "ListServers", &registryv1.ListServersRequest{}))
	})
}

// install makes an instance on each server.
func (h *herd) install(agent string) {
	var drafts []ledger.Draft
	for _, id := range h.ids {
		key := ledger.Key(id, agent)
		drafts = append(drafts, fact(ledger.Instance, key, &instancev1.Wanted{
			InstanceId: key, Generation: 1, Image: &imagev1.Ref{Id: "image", Version: "1.0.0"},
		}))
	}
	h.s.append(drafts...)
}

// countsLate checks that counts of servers and of their instances have the presence that lists show.
func (h *herd) countsLate(late, online uint64) {
	h.s.t.Helper()
	want := []*registryv1.CountGroup{
		{Values: []string{"late"}, Count: late}, {Values: []string{"online"}, Count: online},
	}
	by := []string{"presence"}
	servers := must[*registryv1.CountServersResponse](h.s, "CountServers", &registryv1.CountServersRequest{By: by})
	if diff := cmp.Diff(want, servers.Counts.Groups, protocmp.Transform()); diff != "" {
		h.s.t.Errorf("servers: %s", diff)
	}
	instances := must[*registryv1.CountInstancesResponse](h.s, "CountInstances",
		&registryv1.CountInstancesRequest{By: by})
	if diff := cmp.Diff(want, instances.Counts.Groups, protocmp.Transform()); diff != "" {
		h.s.t.Errorf("instances: %s", diff)
	}
	listed := uint64(0)
	list := &registryv1.ListInstancesRequest{}
	for _, row := range must[*registryv1.ListInstancesResponse](h.s, "ListInstances", list).Instances {
		if row.Presence == serverv1.Presence_PRESENCE_LATE {
			listed++
		}
	}
	if listed != late {
		h.s.t.Errorf("%d instances are listed on late servers, want %d", listed, late)
	}
}

// count returns how many servers are shown with a presence.
func (h *herd) count(r *registryv1.ListServersResponse, want serverv1.Presence) (n int) {
	for _, s := range r.Servers {
		if s.Presence == want {
			n++
		}
	}
	return n
}

// offline returns how many facts call a server of the herd offline.
func (h *herd) offline() (n int) {
	for _, id := range h.ids {
		for _, name := range names(h.s.facts(ledger.Server, id)) {
			if name == "offline" {
				n++
			}
		}
	}
	return n
}

func TestManyServersThatFallSilentTogetherAreLateAndHeldBeforeTheyAreOffline(t *testing.T) {
	t.Parallel()
	const late, online = serverv1.Presence_PRESENCE_LATE, serverv1.Presence_PRESENCE_ONLINE
	every := 400 * time.Millisecond
	s := startBeating(t, every)
	h := startHerd(s, 30)
	h.install("web")
	h.silent.Store(18)
	h.until("eighteen are late and held", func(r *registryv1.ListServersResponse) bool {
		held := r.PresenceHeld
		return held.GetSilent() == 18 && held.GetOf() == 30 && h.count(r, late) == 18 && h.count(r, online) == 12
	})
	for presence, want := range map[serverv1.Presence]int{late: 18, online: 12} {
		r := must[*registryv1.ListServersResponse](s, "ListServers", &registryv1.ListServersRequest{Presence: presence})
		if len(r.Servers) != want || h.count(r, presence) != want {
			t.Errorf("%d servers are listed as %v, want %d", len(r.Servers), presence, want)
		}
	}
	h.countsLate(18, 12)
	time.Sleep(2 * presence.Silence(every)) // beyond the limit of one server
	h.silent.Store(0)
	h.until("all are online and none is held", func(r *registryv1.ListServersResponse) bool {
		return r.PresenceHeld == nil && h.count(r, online) == 30
	})
	if n := h.offline(); n > 0 && !h.starved.Load() {
		t.Errorf("%d facts call a server offline that came back within the hold", n)
	}
	h.silent.Store(1)
	s.untilPresence(h.ids[0], serverv1.Presence_PRESENCE_OFFLINE)
	h.silent.Store(18)
	h.until("seventeen more are held", func(r *registryv1.ListServersResponse) bool {
		return r.PresenceHeld.GetSilent() == 17
	})
	s.pass(presence.HoldLimit(every), s.r)
	for _, id := range h.ids[:18] {
		s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
	}
	if n := h.offline(); n < 18 || n > 18 && !h.starved.Load() {
		t.Errorf("%d facts call a server offline, want 18: one for each that stayed silent", n)
	}
}

// While presence is held, no fact calls a server offline that the last wave may have killed.
func TestNoWaveBeginsWhilePresenceIsHeld(t *testing.T) {
	t.Parallel()
	s := startBeating(t, 400*time.Millisecond)
	h := startHerd(s, 30)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("web", &intentv1.Selector{All: true}))
	s.eventually("web runs everywhere", nil, func() bool {
		running := 0
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.State == instancev1.State_STATE_CONVERGED {
				running++
			}
		}
		return running == 30
	})
	s.image("web", "1.1.0", "release")
	in := staged(taking(12))
	in.GetRollout().Strategy.Approve = true
	id := s.accepted(topology.VerbRollout, in).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	h.silent.Store(18)
	h.until("eighteen are held", func(r *registryv1.ListServersResponse) bool {
		return r.PresenceHeld.GetSilent() == 18
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.waits(id, "60 % of the servers, which are silent (18 of 30): presence is held")
	if r := s.rollout(id); r.Waves[1].OpenedAt != nil {
		t.Fatalf("wave 2 began while presence was held: %v", r.Waves[1])
	}
	h.silent.Store(0)
	s.eventually("it succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	if resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); resp.Same != resp.Recorded {
		t.Errorf("replayed %v", resp)
	}
}

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

// staged is a rollout with these stages.
func staged(stages ...*rolloutv1.Stage) *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Strategy.Stages = stages
	return in
}
