package registry

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// rolledOut is a site with so many servers that are online and run web 1.0.0, of which 1.1.0 is there too.
func rolledOut(t *testing.T, servers int) *site {
	s := startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.fleet(servers)
	s.comeOnline()
	s.accepted(topology.VerbInstall, install("web", &intentv1.Selector{All: true}))
	s.eventually("web runs everywhere", nil, func() bool {
		running := 0
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.State == instancev1.State_STATE_CONVERGED {
				running++
			}
		}
		return running == servers
	})
	s.image("web", "1.1.0", "release")
	return s
}

func (s *site) comeOnline() {
	var drafts []ledger.Draft
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			if server.Presence != serverv1.Presence_PRESENCE_ONLINE {
				drafts = append(drafts, fact(ledger.Server, server.Id, &serverv1.Online{}))
			}
		}
	})
	for part := range slices.Chunk(drafts, 500) {
		s.append(part...)
	}
}

// eventually does the work of dispatcher and servers until so is true, which runs inside Read. The version 1.1.0 does
// not start on servers that are bad.
func (s *site) eventually(what string, bad func(server string) bool, so func() bool) {
	s.t.Helper()
	s.eventuallyBad("1.1.0", what, bad, so)
}

// eventuallyBad is eventually with another version that does not start on servers that are bad.
func (s *site) eventuallyBad(version, what string, bad func(server string) bool, so func() bool) {
	s.t.Helper()
	polltest.Eventually(s.t, what, func() (met bool) {
		var due []*instancev1.Instance
		s.r.follower.Read(func() {
			if met = so(); met {
				return
			}
			for _, agent := range []string{"web", "db"} {
				for i := range s.r.records.View.InstancesOfAgent(agent) {
					if i.TaskGeneration != i.Generation || i.TaskState == taskv1.State_STATE_UNSPECIFIED {
						due = append(due, proto.CloneOf(i))
					}
				}
			}
		})
		var drafts []ledger.Draft
		for _, i := range due {
			drafts = append(drafts, worked(i, bad != nil && i.Wanted.GetVersion() == version && bad(i.ServerId))...)
		}
		for part := range slices.Chunk(drafts, 500) {
			s.append(part...)
		}
		if len(drafts) > 0 { // each is done once
			var last uint64
			if info, err := s.ops.Stream(s.t.Context(), topology.Ledger); err == nil {
				last = info.LastSequence
			}
			_ = s.r.follower.Wait(s.t.Context(), last)
		}
		return met
	})
}

// worked is the facts of a task of an instance, and of what is observed then.
func worked(i *instancev1.Instance, fails bool) []ledger.Draft {
	id, now := ident.New(), i.Wanted
	end := proto.Message(&taskv1.Succeeded{})
	if fails {
		now, end = i.Observed, &taskv1.Undone{Outcome: &taskv1.Outcome{
			Code: code.NotReady, Reason: "it did not start", FailedStep: taskv1.Step_STEP_PROVE,
		}}
	}
	return []ledger.Draft{
		fact(ledger.Task, id, &taskv1.Queued{
			Verb: taskv1.Verb_VERB_UPGRADE, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id,
			Generation: i.Generation, Attempt: 1, From: i.Observed, To: i.Wanted, IntentId: i.IntentId,
		}),
		fact(ledger.Task, id, &taskv1.Assigned{}), fact(ledger.Task, id, &taskv1.Started{}), fact(ledger.Task, id, end),
		fact(ledger.Instance, ledger.Key(i.ServerId, i.Agent), &instancev1.Observed{
			InstanceId: i.Id, Generation: i.Generation, Image: now, Health: instancev1.Health_HEALTH_GOOD,
			ConfigurationDigest: i.Configuration.GetDigest(),
		}),
	}
}

// waves is a rollout of web to every server in waves of one canary, a quarter and the rest.
func waves(strategy *rolloutv1.Strategy) *intentv1.Intent {
	strategy.Stages = append(strategy.Stages,
		&rolloutv1.Stage{Size: &rolloutv1.Stage_Canaries{Canaries: 1}},
		&rolloutv1.Stage{Size: &rolloutv1.Stage_Percent{Percent: 25}})
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		Steps:    []*intentv1.Step{{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "web"}}}},
		On:       &intentv1.Selector{All: true},
		Strategy: strategy,
	}}}
}

func (s *site) rollout(id string) *rolloutv1.Rollout {
	s.t.Helper()
	q := &registryv1.GetRolloutRequest{RolloutId: id}
	return must[*registryv1.GetRolloutResponse](s, "GetRollout", q).Rollout
}

// is returns a condition of a rollout's state, for eventually.
func (s *site) is(id string, want rolloutv1.State) func() bool {
	return func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == want
	}
}

func (s *site) versions() map[string]int {
	out := map[string]int{}
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			out[i.Wanted.GetVersion()]++
		}
	})
	return out
}

func TestARolloutReachesEveryServerWaveByWave(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Refusal != nil || !slices.Equal(plan.Waves, []uint32{1, 3, 8}) || len(plan.Targets) != 12 {
		t.Fatalf("planned %v", plan)
	}
	id := s.accepted(topology.VerbRollout, plan.Intent).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))

	if have := s.versions(); have["1.1.0"] != 12 {
		t.Errorf("versions %v", have)
	}
	want := []string{
		"planned", "opened", "released", "passed", "opened", "released", "passed", "opened", "released", "passed",
		"succeeded",
	}
	// A wave is released a few at a time.
	if have := slices.Compact(names(s.facts(ledger.Rollout, id))); !slices.Equal(have, want) {
		t.Errorf("recorded %v, want %v", have, want)
	}
	if again := s.outcome(s.publish(topology.VerbRollout, plan.Intent)); again.Refusal.GetCode() != code.PlanStale {
		t.Errorf("the same plan once more: %v", again)
	}
}

func (s *site) control(id string, c registryv1.RolloutControl) *rolloutv1.Rollout {
	s.t.Helper()
	q := &registryv1.ControlRolloutRequest{RolloutId: id, Control: c, Reason: "because"}
	return must[*registryv1.ControlRolloutResponse](s, "ControlRollout", q).Rollout
}

func TestTwoRegistriesRunARolloutOnceAndOfflineServersAreServedLater(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	s.registry()
	var away string
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			away = server.Id
		}
	})
	s.append(fact(ledger.Server, away, &serverv1.Offline{}))
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Concurrency: 2})).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	owing := func() int {
		q := &registryv1.ListRolloutsRequest{Owing: true}
		return len(must[*registryv1.ListRolloutsResponse](s, "ListRollouts", q).Rollouts)
	}
	if r := s.rollout(id); r.Owed.Servers != 1 || s.versions()["1.1.0"] != 11 || owing() != 1 {
		t.Errorf("owed %v, versions %v, %d rollouts owe", r.Owed, s.versions(), owing())
	}
	s.append(fact(ledger.Server, away, &serverv1.Online{}))
	s.eventually("the one that was away is served", nil, func() bool {
		target, _ := s.r.records.View.Target(id, away)
		return target.GetState() == rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
	})
	if n := owing(); n != 0 {
		t.Errorf("%d rollouts owe a change when all have it", n)
	}
	q := &registryv1.ListRolloutTargetsRequest{RolloutId: id}
	for _, row := range must[*registryv1.ListRolloutTargetsResponse](s, "ListRolloutTargets", q).Targets {
		wanted := 0
		for _, name := range names(s.facts(ledger.Instance, ledger.Key(row.Target.ServerId, "web"))) {
			if name == "wanted" {
				wanted++
			}
		}
		if wanted != 2 || row.Target.State != rolloutv1.TargetState_TARGET_STATE_SUCCEEDED {
			t.Errorf("%s is %s after %d changes", row.ServerName, row.Target.State, wanted)
		}
	}
	if c := s.code("GetRollout", &registryv1.GetRolloutRequest{RolloutId: "x"}); c != code.NotFound {
		t.Errorf("an unknown rollout: %s", c)
	}
	all := must[*registryv1.ListRolloutsResponse](s, "ListRollouts", &registryv1.ListRolloutsRequest{}).Rollouts
	if len(all) != 1 {
		t.Errorf("%d rollouts are listed", len(all))
	}
}
