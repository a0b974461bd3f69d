package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

var now = time.Unix(1_800_000_000, 0)

// upgraded is the ledger of a server on which a task brought image a.
func upgraded(more ...ledger.Fact) []ledger.Fact {
	of := func(noun ledger.Noun, key string, body proto.Message) ledger.Fact {
		return ledger.Fact{Noun: noun, Key: key, Body: body, At: now}
	}
	a := &imagev1.Ref{Id: "a"}
	return append([]ledger.Fact{
		of(ledger.Instance, "s.web", &instancev1.Wanted{InstanceId: "i", Generation: 1, Image: a, IntentId: "n"}),
		of(ledger.Task, "t", &taskv1.Queued{
			ServerId: "s", Agent: "web", InstanceId: "i", Generation: 1, To: a,
		}),
		of(ledger.Task, "t", &taskv1.Assigned{Deadline: timestamppb.New(now.Add(time.Hour))}),
		of(ledger.Task, "t", &taskv1.Started{}),
		of(ledger.Instance, "s.web", &instancev1.Observed{InstanceId: "i", Image: a}),
		of(ledger.Task, "t", &taskv1.Succeeded{}),
	}, more...)
}

// truth is what the server of upgraded did.
func truth(change func(*Truth)) Truth {
	t := Truth{
		Fault: Healthy, Agents: map[string]string{"web": "a"},
		Ended: map[string]taskv1.State{"t": taskv1.State_STATE_SUCCEEDED},
	}
	change(&t)
	return t
}

func same(*Truth) {}

func TestACheckFindsWhereTheLedgerDiffers(t *testing.T) {
	task := func(body proto.Message) ledger.Fact {
		return ledger.Fact{Noun: ledger.Task, Key: "t", Body: body, At: now}
	}
	observed := func(image string) ledger.Fact {
		return ledger.Fact{Noun: ledger.Instance, Key: "s.web", At: now, Body: &instancev1.Observed{
			InstanceId: "i", Image: &imagev1.Ref{Id: image},
		}}
	}
	shows := &taskv1.Succeeded{Outcome: &taskv1.Outcome{Shown: &taskv1.Shown{}}}
	expired := append(upgraded()[:5], task(&taskv1.Expired{}))
	for name, c := range map[string]struct {
		facts []ledger.Fact
		truth Truth
		want  string // in the only finding; empty for none
	}{
		"both agree":           {upgraded(), truth(same), ""},
		"a task started again": {upgraded(task(&taskv1.Started{})), truth(same), "started again"},
		"a task ended again":   {upgraded(task(&taskv1.Succeeded{})), truth(same), "ended again"},
		"an end without an assignment": {
			slices.Delete(upgraded(), 2, 4), truth(same), "never assigned",
		},
		"an end that shows the agent": {
			append(slices.Delete(upgraded()[:5], 4, 5), task(shows)), truth(same), "",
		},
		"an end that shows another image": {
			append(slices.Delete(upgraded()[:5], 4, 5), task(shows)), truth(has("b")), `the ledger observed "a"`,
		},
		"a task never ended": {upgraded()[:5], truth(func(t *Truth) { t.Ended = nil }), "has not ended"},
		"another end": {
			upgraded(), truth(ends(taskv1.State_STATE_UNDONE)), "the server ended it as undone",
		},
		"an end that it made up":  {upgraded(), truth(func(t *Truth) { t.Ended = nil }), "never ended it"},
		"a version moved unasked": {upgraded(observed("b")), truth(has("b")), "which no intent asked for"},
		"another image":           {upgraded(), truth(has("b")), `with image b; the ledger observed "a"`},
		"an agent is missing":     {upgraded(), truth(func(t *Truth) { t.Agents = nil }), "does not have web"},
		"a report waits":          {upgraded(), truth(func(t *Truth) { t.Waiting = 1 }), "1 reports wait"},
		"an unknown task": {
			upgraded(), truth(func(t *Truth) { t.Ended["x"] = taskv1.State_STATE_FAILED }), "ended task x",
		},
		"a late report is missing": {expired, truth(same), "has as its late report: unknown"},
		"a late report": {
			append(expired[:6:6], task(&taskv1.ReportedLate{State: taskv1.State_STATE_SUCCEEDED})), truth(same), "",
		},
		"a silent server has time": {
			upgraded()[:5], truth(func(t *Truth) { t.Ended, t.Fault = nil, Silent }), "",
		},
		"a dead server is not compared": {upgraded(), truth(func(t *Truth) { t.Dead, t.Agents = true, nil }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			check := NewCheck(func(server string) bool { return server == "s" })
			for n, f := range c.facts {
				f.Sequence = uint64(n + 1)
				check.Fold(f)
			}
			found := check.Compare(map[string]Truth{"s": c.truth}, now).Findings
			all := strings.Join(found, "\n")
			if c.want == "" && all != "" || c.want != "" && (len(found) != 1 || !strings.Contains(all, c.want)) {
				t.Errorf("%q, want one with %q", found, c.want)
			}
		})
	}
}

func ends(s taskv1.State) func(*Truth) { return func(t *Truth) { t.Ended["t"] = s } }

func has(image string) func(*Truth) { return func(t *Truth) { t.Agents["web"] = image } }

func TestTheSeedDecidesTheFaults(t *testing.T) {
	shares := Shares{Failing: 0.25, Slow: 0.25}
	count := map[Fault]int{}
	for n := range 1000 {
		name := strings.Repeat("x", n)
		is := shares.of(7, name)
		if again := shares.of(7, name); again != is {
			t.Fatalf("a server is %s, then %s", is, again)
		}
		count[is]++
	}
	for fault, share := range map[Fault]float64{Failing: 0.25, Slow: 0.25, Healthy: 0.5} {
		if have := float64(count[fault]) / 1000; have < share-0.06 || have > share+0.06 {
			t.Errorf("%.3f of the servers are %s, want about %.2f", have, fault, share)
		}
	}
	if err := (Shares{Failing: 0.6, Slow: 0.6}).Check(); err == nil {
		t.Error("shares of 1.2 are accepted")
	}
}
