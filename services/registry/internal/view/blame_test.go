package view_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// attempt is a change of web from 1.0.0 with the configuration "old" on a server.
type attempt struct{ server, version, configuration string }

func (r *rolled) attempt(a attempt, end proto.Message) {
	configuration := func(digest string) *instancev1.Configuration {
		return &instancev1.Configuration{Digest: []byte(digest)}
	}
	image := func(version string) *imagev1.Ref { return &imagev1.Ref{Id: "web" + version, Version: version} }
	i, _ := r.Instance(a.server, "web")
	key, task, next := a.server+".web", fmt.Sprint("t", r.last), i.Generation+1
	r.fold(ledger.Instance, key, &instancev1.Wanted{
		InstanceId: i.Id, Generation: next, Image: image("1.0.0"), Configuration: configuration("old"),
	})
	r.fold(ledger.Instance, key, &instancev1.Wanted{
		InstanceId: i.Id, Generation: next + 1, Image: image(a.version), Configuration: configuration(a.configuration),
	})
	r.fold(ledger.Task, task, &taskv1.Queued{
		ServerId: a.server, Agent: "web", InstanceId: i.Id, Generation: next + 1, Attempt: 1,
		From: image("1.0.0"), To: image(a.version),
	})
	r.fold(ledger.Task, task, &taskv1.Assigned{})
	r.fold(ledger.Task, task, &taskv1.Started{})
	r.fold(ledger.Task, task, end)
}

// blamed returns the suspects in words, with their servers.
func (r *rolled) blamed() string {
	var out []string
	for _, s := range r.Suspects() {
		words := strings.NewReplacer(
			fmt.Sprintf("%x", "old"), "old", fmt.Sprintf("%x", "c1"), "c1", fmt.Sprintf("%x", "c2"), "c2",
			" for linux/amd64", "", ` of agent "web"`, "",
		).Replace(block.Words(s.Build))
		out = append(out, words+" on "+strings.Join(s.ServerIds, " "))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func TestAnImageAndAConfigurationThatCameTogetherAreBlamedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		failed []attempt
		want   string
	}{
		"both": {
			[]attempt{{"s0", "2", "c1"}, {"s1", "2", "c1"}}, "web 2 with configuration c1 on s0 s1",
		},
		"the image alone":   {[]attempt{{"s0", "2", "old"}}, "web 2 on s0"},
		"the configuration": {[]attempt{{"s0", "1.0.0", "c1"}}, "configuration c1 on s0"},
		"nothing in common": {
			[]attempt{{"s0", "2", "c1"}, {"s1", "3", "c2"}},
			"web 2 with configuration c1 on s0; web 3 with configuration c2 on s1",
		},
		"an image in other company": {
			[]attempt{{"s0", "2", "c1"}, {"s1", "2", "c2"}},
			"web 2 on s0 s1; web 2 with configuration c1 on s0; web 2 with configuration c2 on s1",
		},
		"a configuration in other company": {
			[]attempt{{"s0", "2", "c1"}, {"s1", "3", "c1"}},
			"configuration c1 on s0 s1; web 2 with configuration c1 on s0; web 3 with configuration c1 on s1",
		},
	} {
		r := tries(3)
		for _, a := range c.failed {
			r.attempt(a, undone(taskv1.Step_STEP_PROVE, code.NotReady))
		}
		if got := r.blamed(); got != c.want {
			t.Errorf("%s: blamed %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatIsBlamedDoesNotDependOnTheOrderOfTheServers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := map[attempt]bool{}
		for n := range rapid.IntRange(1, 6).Draw(t, "servers") {
			a := attempt{
				fmt.Sprint("s", n), rapid.SampledFrom([]string{"1.0.0", "2", "3"}).Draw(t, "version"),
				rapid.SampledFrom([]string{"old", "c1", "c2"}).Draw(t, "configuration"),
			}
			ends[a] = rapid.Bool().Draw(t, "fails")
		}
		run := func(order []attempt) string {
			r := tries(6)
			for _, a := range order {
				end := proto.Message(&taskv1.Succeeded{})
				if ends[a] {
					end = undone(taskv1.Step_STEP_PROVE, code.NotReady)
				}
				r.attempt(a, end)
			}
			return r.blamed()
		}
		byServer := func(a, b attempt) int { return strings.Compare(a.server, b.server) }
		sorted := slices.SortedFunc(maps.Keys(ends), byServer)
		one, other := run(sorted), run(rapid.Permutation(sorted).Draw(t, "order"))
		if one != other {
			t.Fatalf("%q in one order, and %q in another", one, other)
		}
	})
}

// What is asked for again was wanted before, and does not run: it is brought as much as the first time.
func TestASecondTryOfAnImageAndAConfigurationBlamesBothAgain(t *testing.T) {
	proved := undone(taskv1.Step_STEP_PROVE, code.NotReady)
	r := secondTry(proved, proved)
	if got, want := r.blamed(), "web 2 with configuration c1 on s0"; got != want {
		t.Errorf("blamed %q, want %q", got, want)
	}
}

func TestAFailureThatIsObservedAfterASecondTryBlamesBothAgain(t *testing.T) {
	r := secondTry(undone(taskv1.Step_STEP_PROVE, code.NotReady), &taskv1.Succeeded{})
	i, _ := r.Instance("s0", "web")
	r.fold(ledger.Instance, "s0.web", &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation, Image: i.Wanted, ConfigurationDigest: []byte("c1"),
		Health: instancev1.Health_HEALTH_BAD, Code: code.CrashLoop,
	})
	if got, want := r.blamed(), "web 2 with configuration c1 on s0"; got != want {
		t.Errorf("blamed %q, want %q", got, want)
	}
}

// secondTry brings web 2 with configuration c1 twice, with the ends of both tasks; the first one is rolled back.
func secondTry(proved, end proto.Message) *rolled {
	r := tries(1)
	r.attempt(attempt{"s0", "2", "c1"}, proved)
	image := &imagev1.Ref{Id: "web2", Version: "2"}
	i, _ := r.Instance("s0", "web")
	r.fold(ledger.Instance, "s0.web", &instancev1.Observed{
		InstanceId: i.Id, Image: &imagev1.Ref{Id: "web1.0.0", Version: "1.0.0"}, ConfigurationDigest: []byte("old"),
		Health: instancev1.Health_HEALTH_GOOD,
	})
	r.fold(ledger.Instance, "s0.web", &instancev1.Wanted{
		InstanceId: i.Id, Generation: i.Generation + 1, Image: image,
		Configuration: &instancev1.Configuration{Digest: []byte("c1")},
	})
	i, _ = r.Instance("s0", "web")
	r.fold(ledger.Task, "again", &taskv1.Queued{
		ServerId: "s0", Agent: "web", InstanceId: i.Id, Generation: i.Generation, Attempt: 1,
		From: i.Observed, To: image,
	})
	r.fold(ledger.Task, "again", &taskv1.Assigned{})
	r.fold(ledger.Task, "again", &taskv1.Started{})
	r.fold(ledger.Task, "again", end)
	return r
}
