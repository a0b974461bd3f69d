package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func of(found ...*reportv1.Found) *reportv1.AgentsReport {
	return &reportv1.AgentsReport{Agents: found}
}

func alive() *serverv1.Server { return &serverv1.Server{Id: "s", Life: serverv1.Life_LIFE_ALIVE} }

var web = []*instancev1.Instance{{Agent: "web", Id: "i-web"}}

func TestAgentsOfNoInstanceAreUnmanaged(t *testing.T) {
	one := &imagev1.Ref{Id: "image", Version: "1.0.0", Digest: []byte{1}}
	for _, c := range []struct {
		name  string
		found *reportv1.Found
		want  string // the trace and the path; empty when it is explained
	}{
		{"an instance", &reportv1.Found{Agent: "web", InstanceId: "i-web", Image: one, Pid: 7}, ""},
		{
			"a link that the inventory does not know",
			&reportv1.Found{Agent: "cron", Trace: serverv1.Trace_TRACE_LINK, Path: "agents/cron/current"},
			"TRACE_LINK agents/cron/current",
		},
		{
			"a process beside an instance",
			&reportv1.Found{Agent: "web", Trace: serverv1.Trace_TRACE_PROCESS, Path: "images/2"},
			"TRACE_PROCESS images/2",
		},
		{
			"an unknown instance", &reportv1.Found{Agent: "cron", InstanceId: "i-cron", Image: one},
			"TRACE_INSTANCE i-cron",
		},
		{
			"what is left of an instance that is gone",
			&reportv1.Found{Agent: "cron", InstanceId: "i-cron", Health: instancev1.Health_HEALTH_ABSENT}, "",
		},
		{
			"another instance than the one that is known",
			&reportv1.Found{Agent: "web", InstanceId: "i-old", Image: one}, "TRACE_INSTANCE i-old",
		},
		{"an older executor's link", &reportv1.Found{Agent: "cron", Image: one}, "TRACE_LINK "},
		{"an older executor's process", &reportv1.Found{Agent: "cron", Image: one, Pid: 7}, "TRACE_PROCESS "},
		{"an older executor's report of an instance", &reportv1.Found{Agent: "web", Image: one}, ""},
	} {
		have := ""
		for _, a := range Unmanaged(of(c.found), slices.Values(web)).Agents {
			have += a.Trace.String() + " " + a.Path
		}
		if have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

func TestTheUnmanagedListIgnoresProcessIDsAndOrder(t *testing.T) {
	a := &reportv1.Found{
		Agent:     "a",
		Trace:     serverv1.Trace_TRACE_PROCESS,
		Pid:       1,
		StartedAt: timestamppb.New(time.Unix(1, 0)),
	}
	b := &reportv1.Found{Agent: "b", Trace: serverv1.Trace_TRACE_LINK}
	s, _ := server.Apply(alive(), found(1, Unmanaged(of(a, b), slices.Values(web))))
	a.Pid, a.StartedAt = 2, timestamppb.New(time.Unix(2, 0))
	if again := Unmanaged(of(b, a, a), slices.Values(web)); !SameList(s, again) {
		t.Errorf("%v differs from %v", again, s.Found)
	}
	for _, other := range []*reportv1.AgentsReport{
		of(), of(a), {Agents: []*reportv1.Found{a, b}, More: 1},
		of(a, &reportv1.Found{Agent: "b", Trace: serverv1.Trace_TRACE_UNIT}),
	} {
		if SameList(s, Unmanaged(other, slices.Values(web))) {
			t.Errorf("%v is taken for %v", other, s.Found)
		}
	}
}

func found(second int64, b *serverv1.AgentsFound) ledger.Fact {
	return ledger.Fact{Noun: ledger.Server, Key: "s", Body: b, At: time.Unix(second, 0)}
}

// Whatever a server reports, the fact is small, valid, and counts what it left out.
func TestOneServerCannotMakeALargeFact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		long := strings.Repeat("é", rapid.IntRange(0, 4000).Draw(t, "length")) + "x"
		r := &reportv1.AgentsReport{More: rapid.Uint32().Draw(t, "more")}
		for i := range n {
			name := fmt.Sprint(i, long)
			r.Agents = append(r.Agents, &reportv1.Found{
				Agent: name, Trace: serverv1.Trace(i), Path: name, OtherRoot: name, OtherServerId: name,
				Image: &imagev1.Ref{Id: name, Version: name, Digest: make([]byte, bounds.Bytes)},
			})
		}
		if err := bounds.Report(&reportv1.Report{Body: &reportv1.Report_Agents{Agents: r}}); err != nil {
			t.Fatal(err)
		}
		f := Unmanaged(r, slices.Values(web))
		if size := proto.Size(f); size > 20<<10 || len(f.Agents) > maxListed {
			t.Fatalf("%d agents in %d bytes", len(f.Agents), size)
		}
		if r.More < maxMore/2 && n > maxListed && int(f.More) < n-maxListed {
			t.Fatalf("%d more of %d", f.More, n)
		}
		for _, a := range f.Agents {
			if !utf8.ValidString(a.Agent + a.Path + a.Version + a.ImageId + a.OtherRoot + a.OtherServerId) {
				t.Fatalf("%q is cut through a character", a.Agent)
			}
		}
	})
}

func TestTheListOfOneServerChangesAtALimitedRate(t *testing.T) {
	now, some := time.Unix(1000, 0), &serverv1.AgentsFound{More: 1}
	for ago, want := range map[time.Duration]bool{0: true, listEvery - 1: true, listEvery: false, -time.Hour: false} {
		s := &serverv1.Server{FoundAt: timestamppb.New(now.Add(-ago))}
		if have := MustWait(s, some, now); have != want {
			t.Errorf("%v ago: %v, want %v", ago, have, want)
		}
		if MustWait(s, &serverv1.AgentsFound{}, now) {
			t.Errorf("%v ago: the end waits", ago)
		}
	}
	if MustWait(&serverv1.Server{}, some, time.Unix(0, 0)) {
		t.Error("a list that never changed must wait")
	}
}

func TestAChangeOfWhatAServerKeepsForAWayBackIsADifference(t *testing.T) {
	i := after(t, wanted(1, two), succeeded(two), listed(1, two))
	found := &reportv1.Found{Agent: "web", InstanceId: "i", Generation: 1, Image: two, Health: good}
	differences := func() []Difference {
		report := &reportv1.AgentsReport{Agents: []*reportv1.Found{found}}
		return Differences(slices.Values([]*instancev1.Instance{i}), report)
	}
	if have := differences(); len(have) > 0 {
		t.Fatalf("the same differs: %v", have)
	}
	found.Kept = []*imagev1.Kept{{Image: one, Since: &timestamppb.Timestamp{Seconds: 7}, Bytes: 9, ChangesLeft: 1}}
	have := differences()
	if len(have) != 1 || len(have[0].Observed.Kept) != 1 {
		t.Fatalf("differences %v; want one, with the kept version", have)
	}
	i = after(t, wanted(1, two), succeeded(two), have[0].Observed)
	if len(i.Kept) != 1 || len(differences()) > 0 {
		t.Errorf("recorded as %v", i.Kept)
	}
}
