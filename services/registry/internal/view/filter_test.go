package view

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/confirm"
	"github.com/garrison-fleet/garrison/services/registry/internal/leak"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// maybe draws a value, or the zero value.
func maybe[T any](t *rapid.T, name string, values ...T) T {
	var none T
	return rapid.SampledFrom(append([]T{none}, values...)).Draw(t, name)
}

// drawQuery draws a selector that fits the view, or none.
func drawQuery(t *rapid.T, v *View) selector.Query {
	in, not := intentv1.Operator_OPERATOR_IN, intentv1.Operator_OPERATOR_NOT_IN
	is := func(field string, op intentv1.Operator, values ...string) *intentv1.Condition {
		return &intentv1.Condition{Field: field, Operator: op, Values: values}
	}
	on := maybe(t, "on",
		&intentv1.Selector{All: true}, &intentv1.Selector{Labels: map[string]string{"rack": "a"}},
		&intentv1.Selector{Where: []*intentv1.Condition{is("platform", in, "linux/amd64", "linux/arm64")}},
		&intentv1.Selector{Where: []*intentv1.Condition{is("label.rack", not, "a")}},
		&intentv1.Selector{Where: []*intentv1.Condition{is("memory", in, "1024MiB")}},
		&intentv1.Selector{Where: []*intentv1.Condition{is("memory", intentv1.Operator_OPERATOR_AT_LEAST, "2GiB")}},
		&intentv1.Selector{Where: []*intentv1.Condition{is("executor", intentv1.Operator_OPERATOR_LESS, "2.0.0")}},
		&intentv1.Selector{All: true, Not: []*intentv1.Selector{{Labels: map[string]string{"rack": "b"}}}},
	)
	if _, known := v.Server("s2"); known && rapid.Bool().Draw(t, "named") {
		on = &intentv1.Selector{Servers: []string{"s2"}}
	}
	q, refusal := selector.NewQuery(v, on)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return q
}

// drawUnconfirmed draws a filter by confirmation, or none. Every server under management is expected, as the registry
// has it.
func drawUnconfirmed(t *rapid.T, v *View) *Unconfirmed {
	if rapid.Bool().Draw(t, "any age") {
		return nil
	}
	book := confirm.New()
	for s := range v.AllServers() {
		if server.Managed(s) {
			book.Expect(s.Id)
		}
		if at := rapid.Int64Range(0, 3).Draw(t, "confirmed"); at > 0 {
			book.Confirm(s.Id, time.Unix(at, 0))
		}
	}
	return &Unconfirmed{Since: time.Unix(rapid.Int64Range(1, 4).Draw(t, "since"), 0), Of: book}
}

func drawServerFilter(t *rapid.T, v *View) ServerFilter {
	q := ServerFilter{
		Environment: maybe(t, "env", "prod", "test", environment.None),
		Life:        maybe[serverv1.Life](t, "life", 1, 2, 3, 4),
		Presence:    maybe[serverv1.Presence](t, "presence", 1, 2),
		Standing:    maybe[serverv1.Standing](t, "standing", 1, 2, 3),
		Condition:   maybe[serverv1.ExecutorState](t, "condition", 1, 2), Leaked: maybe(t, "leaked", true),
		Trouble: maybe(t, "trouble", code.DuplicateIdentity, code.ExecutorSuspended),
		Found:   maybe(t, "found", true), Unsigned: maybe(t, "unsigned", true),
		On: drawQuery(t, v), Unconfirmed: drawUnconfirmed(t, v),
	}
	if rapid.Bool().Draw(t, "labelled") {
		q.Labels = map[string]string{"rack": racks.Draw(t, "rack")}
	}
	return q
}

func drawInstanceFilter(t *rapid.T, v *View) InstanceFilter {
	return InstanceFilter{
		Executors: maybe(t, "executors", true),
		Server:    maybe(t, "server", "s1"), Agent: maybe(t, "agent", "web", Executor),
		ImageID: maybe(t, "image", "i1"), Version: maybe(t, "version", "vi2"),
		Kind:        maybe(t, "kind", agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_SELF),
		Application: maybe(t, "application", "x"), Environment: environments.Draw(t, "env"),
		State:       maybe[instancev1.State](t, "state", 1, 2, 3, 4, 5),
		Health:      maybe[instancev1.Health](t, "health", 1, 2, 3),
		NotAtWanted: maybe(t, "not at wanted", true), On: drawQuery(t, v), Unconfirmed: drawUnconfirmed(t, v),
	}
}

func TestSomeServersAreInTheEndAllThatAreNotDead(t *testing.T) {
	ids := func(all iter.Seq[*serverv1.Server]) (out []string) {
		for s := range all {
			out = append(out, s.Id)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		v := New()
		for _, f := range drawFacts(t) {
			v.Apply(f)
		}
		var have []string
		most := rapid.IntRange(1, 5).Draw(t, "most")
		for from := 0; from >= 0; {
			var some iter.Seq[*serverv1.Server]
			some, from = v.SomeServers(from, most)
			if have = append(have, ids(some)...); len(ids(some)) > most {
				t.Fatalf("%d servers, want at most %d", len(ids(some)), most)
			}
		}
		slices.Sort(have)
		if want := ids(v.AllServers()); !slices.Equal(have, want) {
			t.Errorf("%v, want %v", have, want)
		}
	})
}

func TestAFilteredListEqualsAScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New()
		for _, f := range drawFacts(t) {
			v.Apply(f)
		}
		after := maybe(t, "after", "s1", "s2")
		sq := drawServerFilter(t, v)
		sq.Late = drawLate(t, v)
		if diff := gocmp.Diff(scanServers(v, sq, after), keysOf(v.Servers(sq, after))); diff != "" {
			t.Fatalf("servers %+v:\n%s", sq, diff)
		}
		by := fieldsToCountBy(t, false)
		if diff := gocmp.Diff(scannedCounts(v, scanServers(v, sq, ""), by, sq.Late, false), v.CountServers(sq, by, 2),
			protocmp.Transform()); diff != "" {
			t.Fatalf("count of servers %+v:\n%s", sq, diff)
		}
		after, iq := maybe(t, "after", "s1.db", "s1.web", "s2.web"), drawInstanceFilter(t, v)
		iq.Late = sq.Late
		if diff := gocmp.Diff(scanInstances(v, iq, after), keysOf(v.Instances(iq, after))); diff != "" {
			t.Fatalf("instances %+v:\n%s", iq, diff)
		}
		by = fieldsToCountBy(t, true)
		if diff := gocmp.Diff(scannedCounts(v, scanInstances(v, iq, ""), by, iq.Late, true),
			v.CountInstances(iq, by, 2), protocmp.Transform()); diff != "" {
			t.Fatalf("count of instances %+v:\n%s", iq, diff)
		}
	})
}

func fieldsToCountBy(t *rapid.T, ofInstances bool) []string {
	names := slices.Collect(FieldNames(ofInstances))
	return rapid.SliceOfNDistinct(rapid.SampledFrom(append(names, "label.rack")), 0, 4, rapid.ID).Draw(t, "by")
}

// drawLate draws some of the servers that are recorded as online.
func drawLate(t *rapid.T, v *View) (late []string) {
	for s := range v.AllServers() {
		if s.Presence == serverv1.Presence_PRESENCE_ONLINE && rapid.Bool().Draw(t, "late") {
			late = append(late, s.Id)
		}
	}
	slices.Sort(late)
	return late
}

// scannedCounts counts rows one by one.
func scannedCounts(v *View, keys, by, late []string, ofInstances bool) *registryv1.Counts {
	c := &registryv1.Counts{Total: uint64(len(keys)), By: by}
	if len(by) == 0 {
		return c
	}
	groups := map[string]*registryv1.CountGroup{}
	for _, key := range keys {
		g := &registryv1.CountGroup{}
		for _, field := range by {
			if s, _ := v.servers.Get(serverOf(key)); field == byPresence && slices.Contains(late, serverOf(key)) {
				g.Values = append(g.Values, "late")
			} else if ofInstances {
				i := scanned(v, true)[key]
				g.Values = append(g.Values, v.instanceValue(i, s, field))
			} else {
				g.Values = append(g.Values, serverValue(s, field))
			}
		}
		name := fmt.Sprintf("%q", g.Values)
		groups[name] = cmp.Or(groups[name], g)
		groups[name].Count++
	}
	for _, g := range groups {
		c.Groups = append(c.Groups, g)
	}
	slices.SortFunc(c.Groups, func(a, b *registryv1.CountGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Values, b.Values))
	})
	for len(c.Groups) > 2 {
		last := c.Groups[len(c.Groups)-1]
		c.Groups, c.Others, c.OtherGroups = c.Groups[:len(c.Groups)-1], c.Others+last.Count, c.OtherGroups+1
	}
	return c
}

func keysOf[T any](rows func(func(string, T) bool)) (out []string) {
	for key := range rows {
		out = append(out, key)
	}
	return out
}

func scanServers(v *View, q ServerFilter, after string) (out []string) {
	for id, s := range v.servers.All() {
		rack, ok := s.Labels["rack"]
		switch {
		case q.Unsigned && !server.TakesUnsigned(s):
		case q.Leaked && !leak.Leaked(s), !q.Leaked && q.Life == 0 && s.Life == serverv1.Life_LIFE_DEAD,
			!q.Leaked && q.Life != 0 && s.Life != q.Life,
			q.Labels != nil && (!ok || rack != q.Labels["rack"]),
			q.Environment != "" && cmp.Or(s.Environment, environment.None) != q.Environment,
			q.Presence != 0 && s.Presence != q.Presence, q.Standing != 0 && s.Standing != q.Standing,
			q.Condition != 0 && conditionOf(s) != q.Condition, q.Found && len(s.Found) == 0 && s.FoundMore == 0,
			q.Trouble != "" && server.Trouble(s) != q.Trouble,
			!q.On.Match(s), !isUnconfirmed(q.Unconfirmed, s), id <= after:
		default:
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func conditionOf(s *serverv1.Server) serverv1.ExecutorState {
	if s.Condition == nil {
		return serverv1.ExecutorState_EXECUTOR_STATE_RUNNING
	}
	return s.Condition.State
}

func isUnconfirmed(q *Unconfirmed, s *serverv1.Server) bool {
	return q == nil || server.Managed(s) && !q.Of.ConfirmedSince(s.GetId(), q.Since)
}

// scanned returns every instance by its key, with the executors that no instance is.
func scanned(v *View, executors bool) map[string]*instancev1.Instance {
	out := map[string]*instancev1.Instance{}
	managed := map[string]bool{} // servers whose executor is an instance, or whose key is taken
	for key, i := range v.instances.All() {
		out[key] = i
		a, _ := v.agents.Get(i.Agent)
		managed[i.ServerId] = managed[i.ServerId] || i.Agent == Executor || a.GetKind() == agentv1.Kind_KIND_SELF
	}
	for id, s := range v.servers.All() {
		if executors && server.Managed(s) && s.GetSysinfo().GetExecutorVersion() != "" && !managed[id] {
			out[ledger.Key(id, Executor)] = v.ExecutorByHand(s)
		}
	}
	return out
}

func scanInstances(v *View, q InstanceFilter, after string) (out []string) {
	for key, i := range scanned(v, q.Executors) {
		s, _ := v.servers.Get(i.ServerId)
		a, _ := v.agents.Get(i.Agent)
		if i.Id == "" {
			a = &agentv1.Agent{Application: a.GetApplication(), Kind: agentv1.Kind_KIND_SELF}
		}
		aboutServer := q.Server != "" || q.Environment != "" || q.On.Active() || q.Unconfirmed != nil
		switch {
		case aboutServer && s == nil,
			q.Server != "" && i.ServerId != q.Server, q.Agent != "" && i.Agent != q.Agent,
			q.ImageID != "" && i.Wanted.GetId() != q.ImageID && i.Observed.GetId() != q.ImageID,
			q.Version != "" && i.Wanted.GetVersion() != q.Version && i.Observed.GetVersion() != q.Version,
			q.Kind != 0 && a.GetKind() != q.Kind, q.Application != "" && a.GetApplication() != q.Application,
			q.Environment != "" && s.Environment != q.Environment, q.State != 0 && i.State != q.State,
			q.Health != 0 && i.Health != q.Health, q.NotAtWanted && i.Wanted.GetId() == i.Observed.GetId(),
			!q.On.Match(s), !isUnconfirmed(q.Unconfirmed, s), key <= after:
		default:
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Whatever happens between two pages, a row that passes the filter all the time is on one page.
func TestARowThatStaysIsOnOnePageHoweverTheViewChangesMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, facts := New(), drawFacts(t)
		begin := rapid.IntRange(0, len(facts)).Draw(t, "begin")
		for _, f := range facts[:begin] {
			v.Apply(f)
		}
		q := drawInstanceFilter(t, v)
		q.On, q.Unconfirmed = selector.Query{}, nil // they would have to be asked anew, as each request does
		stayed := scanInstances(v, q, "")
		seen := map[string]int{}
		for after, rest := "", facts[begin:]; ; {
			next := ""
			for key := range v.Instances(q, after) {
				next = key
				seen[key]++
				break // a page of one row
			}
			if after = next; after == "" {
				break
			}
			n := rapid.IntRange(0, min(3, len(rest))).Draw(t, "facts between")
			for _, f := range rest[:n] {
				v.Apply(f)
				still := scanInstances(v, q, "")
				stayed = slices.DeleteFunc(stayed, func(key string) bool { return !slices.Contains(still, key) })
			}
			rest = rest[n:]
		}
		for _, key := range stayed {
			if seen[key] != 1 {
				t.Fatalf("%s is on %d pages; all: %v", key, seen[key], seen)
			}
		}
		for key, n := range seen {
			if n > 1 {
				t.Fatalf("%s is on %d pages", key, n)
			}
		}
	})
}

func TestEveryFieldToCountByHasOneName(t *testing.T) {
	for _, ofInstances := range []bool{false, true} {
		names := slices.Collect(FieldNames(ofInstances))
		if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
			t.Errorf("a name is there twice: %s", strings.Join(names, " "))
		}
	}
	for name, want := range map[string]string{"app": "application", "label.x": "label.x", "version": "version"} {
		if got, ok := FieldName(name, true); !ok || got != want {
			t.Errorf("%s is %s, known %v; want %s", name, got, ok, want)
		}
	}
	if _, ok := FieldName("version", false); ok {
		t.Error("a server has a version")
	}
}

// What an undo, a withdrawal or the server itself goes back to is counted, once for each image.
func TestTheWayBackOfAnInstanceIsCounted(t *testing.T) {
	ref := func(id string) *imagev1.Ref { return &imagev1.Ref{Id: id} }
	i := &instancev1.Instance{
		Wanted: ref("i5"), Observed: ref("i4"), Before: &instancev1.Before{Image: ref("i3")},
		LastBegun: &instancev1.BegunChange{Wanted: ref("i4"), Before: &instancev1.Before{Image: ref("i2")}},
		Kept:      []*imagev1.Kept{{Image: ref("i3")}, {Image: ref("i1")}},
	}
	v := New()
	if got := v.instanceValue(i, nil, "way-back"); got != "i1,i2,i3,i4" {
		t.Errorf("%s", got)
	}
	if got := v.instanceValue(&instancev1.Instance{Wanted: ref("i5")}, nil, "way-back"); got != "" {
		t.Errorf("%s; want none", got)
	}
}
