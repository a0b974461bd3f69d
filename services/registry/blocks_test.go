package registry

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	blocknoun "github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/topology"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/blocks"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func (s *site) blocks() []*blockv1.Block {
	s.t.Helper()
	return must[*registryv1.ListBlocksResponse](s, "ListBlocks", &registryv1.ListBlocksRequest{Agent: "web"}).Blocks
}

// listedWith returns how many instances of the agent are listed with a block, which must have this id.
func (s *site) listedWith(block string) (n int) {
	s.t.Helper()
	list := must[*registryv1.ListInstancesResponse](s, "ListInstances", &registryv1.ListInstancesRequest{Agent: "web"})
	for _, row := range list.Instances {
		if row.Block == nil {
			continue
		}
		if n++; row.Block.Id != block {
			s.t.Errorf("%s is listed with block %s, want %s", row.ServerName, row.Block.Id, block)
		}
	}
	return n
}

func upWeb(version string, on *intentv1.Selector) *intentv1.Intent {
	up := &intentv1.Upgrade{Agent: "web", On: on}
	if version != "" {
		up.Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	}
	return &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
}

// first returns the ids of the first servers of the fleet.
func (s *site) first(n int) *intentv1.Selector {
	var ids []string
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			ids = append(ids, server.Id)
		}
	})
	slices.Sort(ids)
	return &intentv1.Selector{Servers: ids[:n]}
}

func TestABuildThatFailsOnThreeServersIsRefusedEverywhereElseUntilItIsLifted(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 5)
	everywhere := func(string) bool { return true }
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(2)))
	s.eventually("it failed on two servers", everywhere, func() bool {
		for _, suspect := range s.r.records.View.Suspects() {
			return len(suspect.ServerIds) == 2
		}
		return false
	})
	if b := s.blocks(); len(b) != 0 {
		t.Fatalf("after two servers %v is blocked", b)
	}
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(3)))
	s.eventually("it is blocked after the third", everywhere, func() bool { return s.r.records.View.BlockCount() == 1 })
	b := s.blocks()[0]
	if b.Failed != 3 || len(b.ServerIds) != 3 || b.SetBy != ledger.Registry || b.Build.Image.GetVersion() != "1.1.0" {
		t.Errorf("blocked %v", b)
	}
	if n := s.listedWith(b.Id); n != 3 {
		t.Errorf("%d instances are listed with the block, want the three that failed", n)
	}

	all := &intentv1.Selector{All: true}
	if o := s.outcome(s.publish(topology.VerbUpgrade, upWeb("1.1.0", all))); o.Refusal.GetCode() != code.Blocked {
		t.Errorf("an upgrade by hand: %v; want %s", o.Refusal, code.Blocked)
	}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Refusal.GetCode() != code.NothingLeft || !strings.Contains(plan.Refusal.Message, "2 "+code.Blocked) {
		t.Errorf("a rollout: %v; want two servers left out as %s", plan.Refusal, code.Blocked)
	}
	lift := &registryv1.RemoveBlockRequest{Id: b.Id[:8]}
	if c := s.code("RemoveBlock", lift); c != code.BadBlock {
		t.Errorf("lifted without a reason: %s", c)
	}
	lift.Reason = "the disks were full"
	must[*registryv1.RemoveBlockResponse](s, "RemoveBlock", lift)
	if n := s.listedWith(""); n != 0 {
		t.Errorf("%d instances are listed with a block that was lifted", n)
	}
	if c := s.code("RemoveBlock", lift); c != code.NotBlocked {
		t.Errorf("lifted again: %s", c)
	}
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", all))
	s.eventually("it runs everywhere", nil, func() bool { return s.r.records.View.SuspectCount() == 0 })
}

func TestABuildThatWorkedOnManyServersFirstIsBlockedOnceOneInFiveFailed(t *testing.T) {
	t.Parallel()
	const worked, all = 450, 600 // it fails on more servers than a suspect names, but these are less than one in five
	s := rolledOut(t, all)
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(worked)))
	s.eventually("it works on many", nil, func() (converged bool) {
		n := 0
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.Wanted.GetVersion() == "1.1.0" && i.State == instancev1.State_STATE_CONVERGED {
				n++
			}
		}
		return n == worked
	})
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", &intentv1.Selector{All: true}))
	everywhere := func(string) bool { return true }
	s.eventually("it is blocked", everywhere, func() bool { return s.r.records.View.BlockCount() == 1 })
	if b := s.blocks()[0]; b.Failed <= view.MostFailed || b.Failed > all-worked {
		t.Errorf("blocked after %d servers: %s", b.Failed, b.Reason)
	}
}

func TestABuildThatHaltsARolloutIsBlockedAndAnUndoMayGoBackToWhatRan(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	two := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: 2}} // one server alone blocks no build
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Stages: []*rolloutv1.Stage{two}})).Id
	everywhere := func(string) bool { return true }
	s.eventually("it halts and the build is blocked", everywhere, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && s.r.records.View.BlockCount() == 1
	})
	b := s.blocks()[0]
	if b.RolloutId != id || b.Failed != 2 || !strings.Contains(b.Reason, id) {
		t.Errorf("blocked %v", b)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.waits(id, "an approval of wave 2") // no server of the first wave succeeded
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("it halts again, because the build is blocked", everywhere, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && r.GetReason().GetCode() == code.Blocked
	})
	again := &registryv1.ReplayRolloutRequest{RolloutId: id}
	replayed := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", again)
	if replayed.Same != replayed.Recorded {
		t.Errorf("the replay differs: %v", replayed)
	}
	must[*registryv1.RemoveBlockResponse](s, "RemoveBlock", &registryv1.RemoveBlockRequest{Id: b.Id, Reason: "fixed"})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))

	old := must[*registryv1.AddBlocksResponse](s, "AddBlocks", &registryv1.AddBlocksRequest{
		Agent: "web", Version: "1.0.0", Reason: "it leaks",
	}).Blocks
	if len(old) != 1 || old[0].SetBy == ledger.Registry {
		t.Fatalf("by hand: %v", old)
	}
	newer := "" // and not one of those on which 1.1.0 failed, which has 1.0.0 again
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.Observed.GetVersion() == "1.1.0" {
				newer = i.ServerId
			}
		}
	})
	on := &intentv1.Selector{Servers: []string{newer}}
	down := s.outcome(s.publish(topology.VerbUpgrade, upWeb("1.0.0", on)))
	if down.Refusal.GetCode() != code.Blocked {
		t.Errorf("a downgrade to it: %v", down.Refusal)
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo).Id
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] < 11 {
		t.Errorf("versions %v", have)
	}
}

// Servers that moved on to another build no longer show that the old one works, and it may be what they want back.
func TestAFailureIsJudgedByWhatRanWhenItHappened(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 16)
	runs := func(version string, want int) {
		t.Helper()
		ids := s.first(3).Servers
		bad := func(server string) bool { return slices.Contains(ids, server) }
		s.eventually(version+" runs", bad, func() bool {
			n := 0
			for i := range s.r.records.View.InstancesOfAgent("web") {
				if i.Observed.GetVersion() == version && i.Health == instancev1.Health_HEALTH_GOOD {
					n++
				}
			}
			return n == want
		})
	}
	moved := s.first(16)
	moved.Servers = moved.Servers[3:]
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", moved))
	runs("1.1.0", 13)
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(3)))
	s.eventually("it failed on three servers", func(string) bool { return true }, func() bool {
		for _, suspect := range s.r.records.View.Suspects() {
			return len(suspect.ServerIds) == 3
		}
		return false
	})
	s.image("web", "1.2.0", "release")
	moved.Servers = moved.Servers[3:]
	s.accepted(topology.VerbUpgrade, upWeb("1.2.0", moved))
	runs("1.2.0", 10)
	for range 2 {
		blocks.NewWork(s.r.records, blocks.DefaultBlockAfter, zerolog.Nop()).Decide(t.Context())
	}
	if b := s.blocks(); len(b) != 0 {
		t.Errorf("after a restart %v is blocked: %s", b[0].Build, b[0].Reason)
	}
}

func TestWithTheMostBlocksASuspectIsCountedOnceAndBlockedOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 3)
	var drafts []ledger.Draft
	var ids []string
	for n := range blocks.MostBlocks {
		b := blocknoun.OfConfiguration("web", []byte(strconv.Itoa(n)))
		ids = append(ids, blocknoun.ID(b))
		drafts = append(drafts, fact(ledger.Block, ids[n], &blockv1.Set{Build: b, Reason: "it leaks"}))
	}
	for part := range slices.Chunk(drafts, 500) {
		s.append(part...)
	}
	everywhere := func(string) bool { return true }
	s.accepted(topology.VerbUpgrade, upWeb("1.1.0", s.first(3)))
	suspect := ""
	s.eventually("it failed on three servers", everywhere, func() bool {
		for id, have := range s.r.records.View.Suspects() {
			if len(have.ServerIds) == 3 {
				suspect = id
			}
		}
		return suspect != ""
	})
	var log bytes.Buffer
	w := blocks.NewWork(s.r.records, blocks.DefaultBlockAfter, zerolog.New(&log))
	for range 3 {
		w.Decide(t.Context())
	}
	if n := strings.Count(log.String(), "too many blocks"); n != 1 {
		t.Errorf("three looks said %d times that there are too many blocks; want 1: it is remembered", n)
	}
	s.append(fact(ledger.Block, ids[0], &blockv1.Lifted{Reason: "fixed"}))
	s.eventually("it is blocked", everywhere, func() bool {
		_, blocked := s.r.records.View.Block(suspect)
		return blocked
	})
}

func TestOneServerThatHaltsARolloutBlocksNothing(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	suspect := &blockv1.Suspect{
		Build: blocknoun.OfConfiguration("web", []byte("digest")), ServerIds: []string{"s1"}, RolloutId: "r",
	}
	for failed, isBlocked := range map[int]bool{1: false, 2: true} {
		suspect.ServerIds = []string{"s1", "s2"}[:failed]
		set := blocks.NewWork(s.r.records, blocks.DefaultBlockAfter, zerolog.Nop()).Due(suspect)
		if (set != nil) != isBlocked {
			t.Errorf("%d servers: %v; want it blocked: %v", failed, set, isBlocked)
		}
	}
}

func TestAWrongRequestToBlockIsRefused(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 1)
	ask := func(agent, version, image, digest, reason string) *registryv1.AddBlocksRequest {
		return &registryv1.AddBlocksRequest{
			Agent: agent, Version: version, ImageId: image, ConfigurationDigest: digest, Reason: reason,
		}
	}
	for name, c := range map[string]struct {
		q    *registryv1.AddBlocksRequest
		want string
	}{
		"no reason":           {ask("web", "1.0.0", "", "", ""), code.BadBlock},
		"nothing":             {ask("web", "", "", "", "x"), code.BadBlock},
		"two things":          {ask("web", "1", "2", "", "x"), code.BadBlock},
		"an unknown agent":    {ask("wep", "1.0.0", "", "", "x"), code.UnknownAgent},
		"an unknown version":  {ask("web", "9.9.9", "", "", "x"), code.NoMatch},
		"a digest that is no": {ask("web", "", "", "x", "x"), code.BadBlock},
	} {
		if have := s.code("AddBlocks", c.q); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
	if b := s.blocks(); len(b) != 0 {
		t.Errorf("blocked %v", b)
	}
	digest := "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	must[*registryv1.AddBlocksResponse](s, "AddBlocks", &registryv1.AddBlocksRequest{
		Agent: "web", ConfigurationDigest: digest, Reason: "x",
	})
	if n := s.count(ledger.Block, s.blocks()[0].Id, "set"); n != 1 {
		t.Errorf("%d facts", n)
	}
}
