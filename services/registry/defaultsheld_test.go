package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

// waitingFor is servers of prod on which the default of an agent without an image waits.
func waitingFor(t *testing.T, agent string, servers int) *site {
	s := startBeating(t, time.Hour)
	s.channel("release", true)
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{Name: "prod"},
	})
	s.agent(agent)
	s.setDefault(agent, reachNew)
	var drafts []ledger.Draft
	for n := range servers {
		id := ident.New()
		drafts = append(drafts,
			fact(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprint("s", n), Cell: "main", Environment: "prod"}),
			fact(ledger.Server, id, &serverv1.Enrolled{
				Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
			}))
	}
	s.append(drafts...)
	s.comeOnline()
	bustest.Eventually(t, "the default waits everywhere", func() bool { return s.r.defaults.Waits() == servers })
	return s
}

func (s *site) rowOf(agent string) *registryv1.DefaultRow {
	s.t.Helper()
	q := &registryv1.ListDefaultsRequest{Environment: "prod"}
	for _, row := range must[*registryv1.ListDefaultsResponse](s, "ListDefaults", q).Defaults {
		if row.Agent == agent {
			return row
		}
	}
	s.t.Fatalf("no default of %s", agent)
	return nil
}

// An image that is activated, a block that is lifted or an agent that changes would otherwise reach all at once.
func TestADefaultThatBecomesDueOnManyServersTogetherIsHeld(t *testing.T) {
	t.Parallel()
	const many = environments.MostAtOnce + 1
	s := waitingFor(t, "late", many)
	s.image("late", "1.0.0", "release")
	var row *registryv1.DefaultRow
	bustest.Eventually(t, "the default is held", func() bool {
		row = s.rowOf("late")
		return len(row.Reasons) == 1 && row.Reasons[0].Code == code.TooWide
	})
	try := row.Reasons[0].First.GetTry()
	if row.Reasons[0].Count != many || !strings.HasPrefix(try, "garrison rollout start --install late --on env=prod") ||
		!strings.Contains(try, "garrison env default set prod late --reach all --at-once") {
		t.Errorf("held: %v", row.Reasons)
	}
	s.settled(s.r)
	if n := s.with("late"); n != 0 {
		t.Fatalf("it came to %d servers", n)
	}
	if part := s.check(&registryv1.CheckFleetRequest{Agent: "late"}); len(part.Differences) == 0 ||
		part.Differences[0].Cause != code.TooWide || part.Differences[0].Cure != try {
		t.Errorf("the check found %d differences, %v", len(part.Differences), part.Causes)
	}
	if all := s.check(&registryv1.CheckFleetRequest{Agent: "late", CountOnly: true}).Causes; len(all) != 1 ||
		all[0].Count != many {
		t.Errorf("the check counts %v; want %d servers", all, many)
	}
	if n := s.waitingServers(); n != many {
		t.Errorf("%d servers wait for a default; want %d", n, many)
	}
	one := s.join("new", "prod")
	s.untilInstalled("late", one) // a server that joins did not wait

	wide := setDefault("late", reachAll)
	wide.AtOnce = true
	if d := must[*registryv1.SetDefaultResponse](s, "SetDefault", wide).Default; !d.AtOnce {
		t.Errorf("the default is %v; want it at once", d)
	}
	bustest.Eventually(t, "it is wanted everywhere", func() bool { return s.with("late") == many+1 })
}

// What waited while no registry ran, or was held before, is not known after a restart, and must not come by it.
func TestARestartBringsNoDefaultToManyServersAtOnce(t *testing.T) {
	t.Parallel()
	const many = environments.MostAtOnce + 1
	s := waitingFor(t, "late", many)
	s.stop()
	_, image := imageFacts("late", "1.0.0", "release")
	s.appendAsync(image...)
	s.r, s.stop = s.registry()
	bustest.Eventually(t, "the default is held", func() bool {
		row := s.rowOf("late")
		return len(row.Reasons) == 1 && row.Reasons[0].Code == code.TooWide
	})
	s.settled(s.r)
	if n := s.with("late"); n != 0 {
		t.Errorf("it came to %d servers", n)
	}
}

// Only a request of a person changes it: what a file declares has no such field.
func TestADefaultIsAllowedAtOnceAndNoMoreWithoutAnotherChange(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	set := func(atOnce, keepReach bool) *environmentv1.Default {
		q := setDefault("db", reachNew)
		q.AtOnce, q.KeepReach = atOnce, keepReach
		return must[*registryv1.SetDefaultResponse](s, "SetDefault", q).Default
	}
	allowed := set(true, false)
	if !allowed.AtOnce {
		t.Fatalf("allowed at once: %v", allowed)
	}
	if again := set(true, false); again.Revision != allowed.Revision {
		t.Errorf("the same again is revision %d; want %d", again.Revision, allowed.Revision)
	}
	if declared := set(false, true); !declared.AtOnce || declared.Revision != allowed.Revision {
		t.Errorf("declared by a file: %v; want it as it was", declared)
	}
	if no := set(false, false); no.AtOnce {
		t.Errorf("no more at once: %v", no)
	}
}

// A default waits for a rollout that brings its agent. Where that is aborted, it is due on all of its servers.
func TestAnAbortedRolloutDoesNotLetADefaultReachManyServersAtOnce(t *testing.T) {
	t.Parallel()
	const many = environments.MostAtOnce + 5
	s := waitingFor(t, "late", many)
	s.image("late", "1.0.0", "release")
	in := bringing(true)
	in.GetRollout().Steps[0].GetInstall().Agent = "late"
	began := s.accepted(topology.VerbRollout, in)
	bustest.Eventually(t, "the rollout began with one", func() bool { return s.with("late") > 0 })
	s.settled(s.r)
	r := s.control(began.Id, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
	if r.State != rolloutv1.State_STATE_ABORTED {
		t.Fatalf("the rollout is %v", r.State)
	}
	s.r.defaults.AddEverything()
	bustest.Eventually(t, "the default is held on the others", func() bool {
		return s.rowOf("late").Servers[uint32(registryv1.DefaultState_DEFAULT_STATE_WAITING)] == many-1
	})
	s.settled(s.r)
	if n := s.with("late"); n != 1 {
		t.Errorf("%d servers have the agent after the abort; want 1", n)
	}
}

// As many as are allowed at once come at once.
func TestADefaultThatBecomesDueOnFewServersTogetherIsInstalled(t *testing.T) {
	t.Parallel()
	s := waitingFor(t, "late", environments.MostAtOnce)
	s.image("late", "1.0.0", "release")
	bustest.Eventually(t, "it is wanted everywhere", func() bool { return s.with("late") == environments.MostAtOnce })
}
