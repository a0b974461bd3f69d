package registry

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

func (s *site) get(server string) *serverv1.Server {
	s.t.Helper()
	return must[*registryv1.GetServerResponse](s, "GetServer", &registryv1.GetServerRequest{Server: server}).Server
}

func (s *site) untilPresence(server string, want serverv1.Presence) {
	s.t.Helper()
	polltest.Eventually(s.t, "the server is "+want.String(), func() bool { return s.get(server).Presence == want })
}

func (s *site) untilLife(server string, want serverv1.Life) {
	s.t.Helper()
	polltest.Eventually(s.t, "the server is "+want.String(), func() bool { return s.get(server).Life == want })
}

func (s *site) untilDeadLetters(stream string, n int) {
	s.t.Helper()
	polltest.Eventually(s.t, "the message is a dead letter", func() bool {
		letters := topology.DeadLettersOf(stream)
		msgs, err := s.ops.DirectGetFrom(context.Background(), topology.DeadLetter, letters, 1, 10)
		return err == nil && len(msgs) == n
	})
}

// instance returns the only instance of an agent, or nil.
func (s *site) instance(agent string) *instancev1.Instance {
	s.t.Helper()
	r := must[*registryv1.ListInstancesResponse](s, "ListInstances", &registryv1.ListInstancesRequest{Agent: agent})
	if len(r.Instances) == 0 {
		return nil
	}
	return r.Instances[0].Instance
}

// untilState waits for an instance in a state and returns that reading: another registry, whose view
// lags, may answer a second request.
func (s *site) untilState(agent string, want instancev1.State) (i *instancev1.Instance) {
	s.t.Helper()
	polltest.Eventually(s.t, agent+" is "+want.String(), func() bool {
		i = s.instance(agent)
		return i.GetState() == want
	})
	return i
}

// do records a task of the instance's present generation, from its beginning to its success.
func (s *site) do(verb taskv1.Verb, i *instancev1.Instance) {
	s.t.Helper()
	s.append(task(verb, i)...)
}

func removal(i *instancev1.Instance) []ledger.Draft { return task(taskv1.Verb_VERB_REMOVE, i) }

func task(verb taskv1.Verb, i *instancev1.Instance) []ledger.Draft {
	id := ident.New()
	queued := &taskv1.Queued{
		Verb: verb, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id, Generation: i.Generation, Attempt: 1,
		To: i.Wanted,
	}
	end := &taskv1.Succeeded{}
	if i.Wanted != nil {
		end.Outcome = &taskv1.Outcome{Shown: &taskv1.Shown{
			ConfigurationDigest: i.Configuration.GetDigest(), Report: shownReport, At: timestamppb.New(shownAt),
		}}
	}
	return []ledger.Draft{
		fact(ledger.Task, id, queued), fact(ledger.Task, id, &taskv1.Assigned{}), fact(ledger.Task, id, end),
	}
}

// shownReport is the number of the report in which each task of a test ends, and shownAt when its server made it.
const shownReport = 2

var shownAt = time.Now()

// installed is a site with one server on which agents are installed.
func installed(t *testing.T, agents ...string) (*site, string) {
	s := start(t)
	s.channel("release", true)
	id := s.server("one")
	for _, a := range agents {
		s.agent(a)
		s.image(a, "1.0.0", "release")
		s.accepted(topology.VerbInstall, install(a, on("one")))
		s.do(taskv1.Verb_VERB_INSTALL, s.instance(a))
		s.untilState(a, instancev1.State_STATE_CONVERGED)
	}
	return s, id
}

func TestAServerDiesInOneBatchWithItsLastInstances(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web", "db")
	s.accepted(topology.VerbDecommission, decommission("one", false))
	s.untilLife(id, serverv1.Life_LIFE_DYING)

	s.do(taskv1.Verb_VERB_REMOVE, s.instance("web"))
	if i := s.instance("web"); i == nil {
		t.Error("an instance of a dying server is gone before the server is dead")
	}
	s.do(taskv1.Verb_VERB_REMOVE, s.instance("db"))
	s.untilLife(id, serverv1.Life_LIFE_DEAD)

	var ends []uint64
	for _, a := range []string{"web", "db"} {
		facts := s.facts(ledger.Instance, ledger.Key(id, a))
		last := facts[len(facts)-1]
		if last.Name() != "gone" {
			t.Errorf("the last fact about %s is %s; want gone", a, last.Name())
		}
		ends = append(ends, last.Sequence)
	}
	facts := s.facts(ledger.Server, id)
	dead := facts[len(facts)-1]
	ends = append(ends, dead.Sequence)
	slices.Sort(ends)
	if dead.Name() != "dead" || ends[2] != dead.Sequence || ends[0] != dead.Sequence-2 {
		t.Errorf("the ends are at %v and the server's %s at %d; want one batch that ends with dead", ends, dead.Name(),
			dead.Sequence)
	}
}

func TestARemovalThatEndedWhileNoRegistryRanIsRecordedLater(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.accepted(topology.VerbRemove, remove("web", on("one")))
	i := s.instance("web")
	s.stop()
	s.appendAsync(removal(i)...)

	s.registry()

	polltest.Eventually(t, "the instance is gone", func() bool { return s.instance("web") == nil })
}

func TestTwoRegistriesEndAnInstanceOnce(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.registry()
	s.accepted(topology.VerbRemove, remove("web", on("one")))
	i := s.untilState("web", instancev1.State_STATE_REMOVING)
	s.append(removal(i)...)
	polltest.Eventually(t, "the instance is gone", func() bool { return s.instance("web") == nil })
	want := []string{"wanted", "unwanted", "gone"}
	if diff := cmp.Diff(want, names(s.facts(ledger.Instance, ledger.Key(i.ServerId, "web")))); diff != "" {
		t.Error(diff)
	}
}

func TestABeatMakesAServerOnlineAndSilenceOffline(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	s.firstBeat(id, "first")
	polltest.Eventually(t, "it was online and is offline now", func() bool {
		return slices.Equal(names(s.facts(ledger.Server, id)), []string{"invited", "enrolled", "online", "offline"})
	})
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
	s.beat(id, "second")
	polltest.Eventually(t, "the new boot is known", func() bool { return s.get(id).BootId == "second" })
	have := names(s.facts(ledger.Server, id))
	want := []string{"invited", "enrolled", "online", "offline", "online"}
	if diff := cmp.Diff(want, have[:min(len(want), len(have))]); diff != "" {
		t.Error(diff)
	}
}

func TestTwoRegistriesWriteAChangeOfPresenceOnce(t *testing.T) {
	t.Parallel()
	every := time.Minute
	s := startBeating(t, every)
	id, behind := s.server("one"), s.server("behind")
	other, _ := s.registry()
	for _, server := range []string{id, behind} { // beats arrive in turn: once those of another do, none is under way
		polltest.Eventually(t, "both receive its beats", func() bool {
			s.beat(server, "boot") // a replica that does not know the server yet ignores its beat
			return s.r.hasBeat(server) && other.hasBeat(server)
		})
	}
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	s.pass(2*presence.Silence(every), s.r, other)
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
	have := names(s.facts(ledger.Server, id))
	if diff := cmp.Diff([]string{"invited", "enrolled", "online", "offline"}, have); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyAReportThatDiffersBecomesAFact(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	image := s.instance("web").Wanted
	found := func(sequence uint64, health instancev1.Health) {
		s.report(topology.ReportAgents, &reportv1.Report{
			ServerId: id, Sequence: sequence,
			Body: &reportv1.Report_Agents{
				Agents: &reportv1.AgentsReport{Agents: []*reportv1.Found{{Agent: "web", Image: image, Health: health}}},
			},
		})
	}
	found(3, instancev1.Health_HEALTH_GOOD)
	found(4, instancev1.Health_HEALTH_BAD)
	found(5, instancev1.Health_HEALTH_BAD)
	found(6, instancev1.Health_HEALTH_GOOD)
	polltest.Eventually(t, "the last report is handled", func() bool {
		facts := s.facts(ledger.Instance, ledger.Key(id, "web"))
		return len(facts) == 3 && s.instance("web").State == instancev1.State_STATE_CONVERGED
	})
	// It was installed; the first report changed nothing, the third was equal to the second.
	want := []string{"wanted", "observed", "observed"}
	if diff := cmp.Diff(want, names(s.facts(ledger.Instance, ledger.Key(id, "web")))); diff != "" {
		t.Error(diff)
	}
}

// An observation is confirmed by a beat whose sum is the one of what is recorded, as of the look behind it.
func TestAnObservationIsConfirmedByABeatWithTheSameSum(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	var right instance.Sum
	right.AddRecord(s.instance("web"))
	beat := func(sum instance.Sum, age uint64) *timestamppb.Timestamp {
		data, err := proto.Marshal(&reportv1.Beat{
			ServerId: id, BootId: "boot", AgentsSum: uint64(sum), AgentsAgeMs: age,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.r.presence.Receive(
			bus.Message{Subject: topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: id}), Data: data})
		return s.get(id).InventoryConfirmedAt
	}
	for what, c := range map[string]*timestamppb.Timestamp{
		"without a beat": s.get(id).InventoryConfirmedAt, "without a look": beat(right, 0),
		"by another sum": beat(right+1, 1),
	} {
		if c != nil {
			t.Errorf("confirmed at %v %s", c.AsTime(), what)
		}
	}
	now := time.Now()
	old := beat(right, 60_001).AsTime()
	if age := now.Sub(old); age < 59*time.Second || age > 61*time.Second {
		t.Errorf("confirmed %v ago by a look of a minute ago", age)
	}
	if again := beat(right, 120_001).AsTime(); !again.Equal(old) {
		t.Errorf("an older look confirms at %v; want still %v", again, old)
	}
	if next := beat(right, 1).AsTime(); !next.After(old) {
		t.Errorf("confirmed at %v; want later than %v", next, old)
	}
	if have, want := s.instance("web").ConfirmedAt, s.get(id).InventoryConfirmedAt; !proto.Equal(have, want) {
		t.Errorf("the instance is confirmed at %v, want the server's last look at %v", have, want)
	}
}

func TestASysinfoIsRecordedWhenItDiffersOrWasRequested(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	same := s.get(id).Sysinfo
	send := func(sequence uint64, info *serverv1.Sysinfo, task string) {
		s.report(topology.ReportSysinfo, &reportv1.Report{
			ServerId: id, BootId: "boot", Sequence: sequence,
			Body: &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: info, TaskId: task}},
		})
	}
	task := ident.New()
	s.append(
		fact(ledger.Task, task, &taskv1.Queued{Verb: taskv1.Verb_VERB_REFRESH, ServerId: id, Generation: 1}),
		fact(ledger.Task, task, &taskv1.Assigned{}),
	)
	send(1, same, "")
	send(2, same, task)
	polltest.Eventually(t, "the answer is recorded", func() bool { return len(s.facts(ledger.Server, id)) == 3 })
	s.skew.Store(int64(intake.SysinfoEvery))
	send(3, &serverv1.Sysinfo{Platform: same.Platform, MemoryBytes: 1}, "")
	polltest.Eventually(t, "the last report is handled", func() bool { return s.get(id).Sysinfo.MemoryBytes == 1 })
	facts := s.facts(ledger.Server, id)
	if diff := cmp.Diff([]string{"invited", "enrolled", "sysinfo-seen", "sysinfo-seen"}, names(facts)); diff != "" {
		t.Fatal(diff)
	}
	if have := facts[2].Body.(*serverv1.SysinfoSeen).RequestId; have != task {
		t.Errorf("the answer names request %q; want %q", have, task)
	}
}

func TestAForgedReportIsDeadLetteredAndChangesNothing(t *testing.T) {
	t.Parallel()
	s, id := installed(t, "web")
	other := s.server("two")
	s.reportOn(topology.ServerAddress{Cell: "main", Server: other}, topology.ReportAgents, &reportv1.Report{
		ServerId: id, Sequence: 9, Body: &reportv1.Report_Agents{Agents: &reportv1.AgentsReport{}},
	})
	s.untilDeadLetters(topology.Reports, 1)
	if have := s.instance("web").State; have != instancev1.State_STATE_CONVERGED {
		t.Errorf("the forged report made it %s", have)
	}
}

func TestALateReportOfADeadServerIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	s.accepted(topology.VerbDecommission, decommission("one", false))
	s.report(topology.ReportSysinfo, &reportv1.Report{
		ServerId: id, Sequence: 1, Body: &reportv1.Report_Sysinfo{
			Sysinfo: &reportv1.SysinfoReport{Sysinfo: &serverv1.Sysinfo{MemoryBytes: 7}},
		},
	})
	alive := s.server("two")
	s.report(topology.ReportSysinfo, &reportv1.Report{
		ServerId: alive, Sequence: 1, Body: &reportv1.Report_Sysinfo{
			Sysinfo: &reportv1.SysinfoReport{Sysinfo: &serverv1.Sysinfo{MemoryBytes: 7}},
		},
	})
	polltest.Eventually(t, "the other server's report is handled",
		func() bool { return s.get(alive).Sysinfo.MemoryBytes == 7 })
	if have := names(s.facts(ledger.Server, id)); have[len(have)-1] != "dead" {
		t.Errorf("facts of the dead server: %v", have)
	}
}
