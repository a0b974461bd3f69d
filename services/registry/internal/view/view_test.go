package view

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Few keys, so that facts meet.
var (
	servers      = rapid.SampledFrom([]string{"s1", "s2", "s3"})
	agents       = rapid.SampledFrom([]string{"web", "db", Executor})
	images       = rapid.SampledFrom([]string{"i1", "i2"})
	environments = rapid.SampledFrom([]string{"", "prod", "test"})
	racks        = rapid.SampledFrom([]string{"a", "b"})
	ids          = rapid.SampledFrom([]string{"x", "y"})
	digests      = rapid.SampledFrom([]string{"", "d1", "d2"})
	generations  = rapid.Uint64Range(0, 4)
	sysinfos     = rapid.SampledFrom([]*serverv1.Sysinfo{
		nil, {Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, MemoryBytes: 1 << 30, Processors: 4},
		{Platform: &serverv1.Platform{Os: "linux", Arch: "arm64"}, MemoryBytes: 8 << 30, ExecutorVersion: "1.2.0"},
	})
	kindsOfAgents = rapid.SampledFrom([]agentv1.Kind{
		agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_FILES, agentv1.Kind_KIND_SELF,
	})
	healths = rapid.SampledFrom([]instancev1.Health{1, 2, 3})
)

// kinds are the facts that the view folds.
var kinds = slices.DeleteFunc(slices.Clone(ledger.Kinds), func(k ledger.Kind) bool {
	return !slices.Contains(Nouns, k.Noun)
})

func canonical(t interface{ Fatal(...any) }, v *View) []byte {
	data, err := fold.CanonicalOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAFoldIsTheSameWhereverASnapshotWasTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t)
		split := rapid.IntRange(0, len(facts)).Draw(t, "split")
		straight, first, second := New(), New(), New()
		for n, f := range facts {
			straight.Apply(f)
			if n < split {
				first.Apply(f)
			}
		}
		if err := fold.LoadCanonical(second, canonical(t, first)); err != nil {
			t.Fatal(err)
		}
		for _, f := range facts[split:] {
			second.Apply(f)
		}
		if !bytes.Equal(canonical(t, straight), canonical(t, second)) {
			t.Fatal("the fold with a snapshot in between differs")
		}
		if diff := gocmp.Diff(everyIndex(straight), everyIndex(second)); diff != "" {
			t.Fatalf("the indexes differ:\n%s", diff)
		}
	})
}

// everyIndex returns what indexes hold, for comparison.
func everyIndex(v *View) map[string][]string {
	out := map[string][]string{"duties": slices.Collect(v.ServersWithDuties())}
	for _, s := range []string{"s1", "s2", "s3"} {
		for i := range v.InstancesOf(s) {
			out["of "+s] = append(out["of "+s], i.Agent)
		}
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		for s := range v.ServersNamed(n) {
			out["named "+n] = append(out["named "+n], s.Id)
		}
	}
	for _, r := range v.Rollouts() {
		for s := range rolloutv1.TargetState_name {
			for target := range v.TargetsOf(r.Id, rolloutv1.TargetState(s)) {
				out["targets"] = append(out["targets"], fmt.Sprint(r.Id, s, target.ServerId))
			}
		}
		for target := range v.Silent(r.Id) {
			out["silent"] = append(out["silent"], r.Id+target.ServerId)
		}
	}
	slices.Sort(out["targets"])
	v.recent.Scan(func(_ uint64, id string) bool {
		out["recent"] = append(out["recent"], id)
		return true
	})
	for n, shape := range v.shapes.of {
		if shape != noNumber {
			on := "no server"
			if server := v.shapes.servers[n]; server != noNumber {
				on = v.serverBy.Member(server)
			}
			out["shapes"] = append(out["shapes"],
				fmt.Sprint(v.instanceBy.Member(uint32(n)), on, v.shapes.rows[shape]))
		}
	}
	slices.Sort(out["shapes"])
	for _, a := range []string{"", "x", "y"} {
		out["agents in"] = append(out["agents in"], fmt.Sprint(v.AgentsIn(a)))
	}
	return out
}

func TestAFactThatDoesNotFitMovesOnlyTheSequenceOfItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New()
		for _, f := range drawFacts(t) {
			before := canonical(t, v)
			if v.Apply(f) {
				continue
			}
			if f.Noun.Writer() == ledger.Registry && v.Sequence(f.Noun, f.Key) != f.Sequence {
				t.Fatalf("the guard of %s is %d after a fact at %d", f.Subject(), v.Sequence(f.Noun, f.Key), f.Sequence)
			}
			again := New()
			if err := fold.LoadCanonical(again, before); err != nil {
				t.Fatal(err)
			}
			touch(again, f)
			if !bytes.Equal(canonical(t, again), canonical(t, v)) {
				t.Fatalf("%s did not fit but changed more than a sequence", f.Subject())
			}
		}
	})
}

// touch moves the sequence of a fact's key as a fact that does not fit may. It counts for its writer all the same: it
// takes its place in the ledger.
func touch(v *View, f ledger.Fact) {
	v.Writers.Apply(f)
	switch f.Noun {
	case ledger.Server:
		v.servers.Touch(f.Key, f.Sequence)
	case ledger.Instance:
		v.instances.Touch(f.Key, f.Sequence)
	case ledger.Agent:
		v.agents.Touch(f.Key, f.Sequence)
	case ledger.Application:
		v.applications.Touch(f.Key, f.Sequence)
	case ledger.Environment:
		v.environments.Touch(f.Key, f.Sequence)
	case ledger.Intent:
		v.intents.Touch(f.Key, f.Sequence)
	case ledger.External:
		v.externals.Touch(f.Key, f.Sequence)
	case ledger.Token:
		v.tokens.Touch(f.Key, f.Sequence)
	case ledger.LabelRule:
		v.labelRules.Touch(f.Key, f.Sequence)
	case ledger.Lobby:
		v.rejections.Touch(f.Key, f.Sequence)
	case ledger.Hold:
		v.holds.Touch(f.Key, f.Sequence)
	case ledger.Block:
		v.blocks.Touch(f.Key, f.Sequence)
	case ledger.Rollout:
		v.rollouts.Touch(f.Key, f.Sequence)
	case ledger.Task:
		touchKnown(v.tasks, f)
	case ledger.Image:
		touchKnown(v.images, f)
	case ledger.Channel:
		touchKnown(v.channels, f)
	}
}

func touchKnown[T proto.Message](t *fold.Table[T], f ledger.Fact) {
	if _, ok := t.Get(f.Key); ok {
		t.Touch(f.Key, f.Sequence)
	}
}

func TestOnlyTheLastTenThousandIntentsAreKept(t *testing.T) {
	v := New()
	for n := uint64(1); n <= keptIntents+5; n++ {
		v.Apply(ledger.Fact{
			Noun:     ledger.Intent,
			Key:      fmt.Sprintf("i%d", n),
			Body:     &intentv1.Accepted{},
			Sequence: n,
			At:       time.Unix(int64(n), 0),
		})
	}
	if v.intents.Len() != keptIntents {
		t.Errorf("%d intents are kept; want %d", v.intents.Len(), keptIntents)
	}
	if _, ok := v.Intent("i5"); ok {
		t.Error("the fifth of them is kept; want the last ones")
	}
	if _, ok := v.Intent("i6"); !ok {
		t.Error("the sixth of them is not kept")
	}
}

func TestASecondInvitationUnderATakenNameDoesNotFit(t *testing.T) {
	v := New()
	invited := func(id string, sequence uint64) bool {
		return v.Apply(
			ledger.Fact{Noun: ledger.Server, Key: id, Body: &serverv1.Invited{Name: "db1"}, Sequence: sequence})
	}
	if first, second := invited("a", 1), invited("b", 2); !first || second {
		t.Errorf("fit: %v, %v; want only the first", first, second)
	}
	if _, ok := v.Server("b"); ok {
		t.Error("the second is in the view")
	}
}

func TestAClaimOfAdmissionFitsAndChangesNothing(t *testing.T) {
	v := New()
	before, err := fold.CanonicalOf(v)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Apply(ledger.Fact{Noun: ledger.Task, Key: "admission", Body: &taskv1.Claimed{ProcessId: "p"}, Sequence: 1}) {
		t.Error("it does not fit")
	}
	if after, err := fold.CanonicalOf(v); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it changed the view (%v)", err)
	}
}

// A list copies records without their parts, and writes them after the lock is free. The race detector sees a part that
// is set to what it was.
func TestNoFactChangesAPartOfARecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts, v := drawFacts(t), New()
		lists, done := make(chan []copied, len(facts)), make(chan *copied, 1)
		go func() { done <- changed(lists) }()
		for n, f := range facts {
			if v.Apply(f); n%5 == 0 {
				lists <- slices.Concat(copies(v.servers), copies(v.instances), copies(v.intents))
			}
		}
		close(lists)
		if c := <-done; c != nil {
			t.Errorf("it became %v", c.record)
		}
	})
}

// copied is the copy of a record, and its bytes when it was made.
type copied struct {
	record proto.Message
	was    []byte
}

func copies[M proto.Message](of *fold.Table[M]) (out []copied) {
	for _, m := range of.All() {
		c := shallow.Copy(m)
		out = append(out, copied{c, encoded(c)})
	}
	return out
}

// changed reads each list of copies while facts are folded, and once more after that. It returns a copy that is not as
// it was, or nil.
func changed(lists <-chan []copied) (wrong *copied) {
	var all []copied
	for list := range lists {
		all = append(all, list...)
		wrong = cmp.Or(wrong, changedIn(list))
	}
	return cmp.Or(wrong, changedIn(all))
}

func changedIn(list []copied) *copied {
	for n := range list {
		if !bytes.Equal(list[n].was, encoded(list[n].record)) {
			return &list[n]
		}
	}
	return nil
}

func encoded(m proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}
