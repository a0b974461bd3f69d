package rolling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// mostStates bounds the search for an order of the changes of one server.
const mostStates = 20_000

// ordering orders the changes of one server, so that after each of them the images there work together.
type ordering struct {
	reader Reader
	chains [][]*rolloutv1.Change          // by agent: its changes, which keep their order
	there  map[string]*imagev1.Manifest   // what runs before the changes, by agent
	before map[string]bool                // what did not fit before; it need not fit later
	after  map[string]map[string]bool     // by agent: the agents whose changes come first
	next   map[string][]*imagev1.Manifest // by agent: the manifest after each change; nil when it goes
	dead   map[string]bool                // states from which no order leads to the end
}

// order sets the step of each change of a server. It returns a refusal where no order keeps what images require of each
// other, and whether the images that the rollout brings contradict each other on any server.
func order(r Reader, t *rolloutv1.Target) (why *apiv1.Refusal, contradicts bool) {
	o := newOrdering(r, t)
	if bad := o.wrong(o.state(o.ends())); len(bad) > 0 {
		_, one := o.next[bad[0].agent]
		_, other := o.next[bad[0].other]
		if one && other {
			return bad[0].refuse(code.ImpossibleSet, "the rollout brings both: "), true
		}
		return bad[0].refuse(code.RequirementUnmet, ""), false
	}
	for _, tiers := range []bool{true, false} { // what is required counts more than tiers
		o.precede(tiers)
		o.dead = map[string]bool{}
		if found := o.search(make([]int, len(o.chains))); found != nil {
			o.number(t, found)
			return nil, false
		}
	}
	return &apiv1.Refusal{
		Code: code.ImpossibleSet, Message: "no order of the changes keeps what the images require of each other: " +
			"each first change breaks a pair",
		Try: "image versions between those, that work with both sides",
	}, false
}

// orders remembers the orders of servers that are alike.
type orders map[string]alike

type alike struct {
	places      []int // of each change: its position before
	steps       []uint32
	why         *apiv1.Refusal
	contradicts bool
}

// order orders the changes of a server as those of one that is like it.
func (k orders) order(r Reader, t *rolloutv1.Target) (*apiv1.Refusal, bool) {
	var key strings.Builder
	for _, c := range t.Changes {
		fmt.Fprintf(&key, "%s %s\n", c.Agent, c.To.GetId())
	}
	for i := range r.InstancesOf(t.ServerId) {
		fmt.Fprintf(&key, "%s %s\n", i.Agent, instance.Placed(i).GetId())
	}
	before := slices.Clone(t.Changes)
	found, ok := k[key.String()]
	if !ok {
		found.why, found.contradicts = order(r, t)
		for _, c := range t.Changes {
			found.places, found.steps = append(found.places, slices.Index(before, c)), append(found.steps, c.Step)
		}
		k[key.String()] = found
	}
	for n := range t.Changes {
		t.Changes[n] = before[found.places[n]]
		t.Changes[n].Step = found.steps[n]
	}
	return proto.CloneOf(found.why), found.contradicts
}

func newOrdering(r Reader, t *rolloutv1.Target) *ordering {
	o := &ordering{reader: r, there: map[string]*imagev1.Manifest{}, next: map[string][]*imagev1.Manifest{}}
	for i := range r.InstancesOf(t.ServerId) {
		if placed := instance.Placed(i); placed != nil {
			o.there[i.Agent] = manifestOf(r, i.Agent, placed)
		}
	}
	byAgent := map[string]int{}
	for _, c := range t.Changes {
		n, ok := byAgent[c.Agent]
		if !ok {
			n = len(o.chains)
			byAgent[c.Agent], o.chains = n, append(o.chains, nil)
		}
		o.chains[n] = append(o.chains[n], c)
		o.next[c.Agent] = append(o.next[c.Agent], manifestOf(r, c.Agent, c.To))
	}
	o.before = map[string]bool{}
	for _, bad := range o.wrong(o.there) {
		o.before[bad.key()] = true
	}
	return o
}

// precede says whose changes come first: what an agent needs, and with tiers those of lower ones.
func (o *ordering) precede(tiers bool) {
	o.after = map[string]map[string]bool{}
	need, early, goes := map[string]map[string]bool{}, map[string]uint32{}, map[string]bool{}
	for _, chain := range o.chains {
		agent := chain[0].Agent
		a, _ := o.reader.Agent(agent)
		need[agent], early[agent], goes[agent] = needs(o.reader, agent), a.GetTier(), chain[0].To == nil
		o.after[agent] = map[string]bool{}
	}
	for a := range need { // as in the task-dispatcher: an agent counts with the lowest tier of those that need it
		for b := range need {
			if need[a][b] {
				tier, _ := o.reader.Agent(a)
				early[b] = min(early[b], tier.GetTier())
			}
		}
	}
	for a := range need {
		for b := range need {
			first := need[a][b] && !need[b][a] || tiers && early[b] < early[a] && !need[b][a]
			switch {
			case !first || a == b:
			case goes[a]:
				o.after[b][a] = true
			default:
				o.after[a][b] = true
			}
		}
	}
}

// search returns the changes in an order, as positions in the chains; nil when no order exists.
func (o *ordering) search(at []int) []int {
	key := fmt.Sprint(at)
	if o.dead[key] || len(o.dead) > mostStates {
		return nil
	}
	left := false
	for n, chain := range o.chains {
		if at[n] == len(chain) {
			continue
		}
		left = true
		if o.waits(n, at) {
			continue
		}
		next := slices.Clone(at)
		if next[n]++; len(o.wrong(o.state(next))) > 0 {
			continue
		}
		if rest := o.search(next); rest != nil {
			return append([]int{n}, rest...)
		}
	}
	if !left {
		return []int{}
	}
	o.dead[key] = true
	return nil
}

// waits reports whether an agent's changes come after others that are not made.
func (o *ordering) waits(n int, at []int) bool {
	for m, chain := range o.chains {
		if at[m] < len(chain) && o.after[o.chains[n][0].Agent][chain[0].Agent] {
			return true
		}
	}
	return false
}

func (o *ordering) ends() (at []int) {
	for _, chain := range o.chains {
		at = append(at, len(chain))
	}
	return at
}

// state returns what runs on the server after so many changes of each chain.
func (o *ordering) state(at []int) map[string]*imagev1.Manifest {
	out := maps.Clone(o.there)
	for n, done := range at {
		agent := o.chains[n][0].Agent
		switch {
		case done == 0:
		case o.next[agent][done-1] == nil:
			delete(out, agent)
		default:
			out[agent] = o.next[agent][done-1]
		}
	}
	return out
}

// pair is two agents that do not work together.
type pair struct {
	agent, other string
	what         string
}

func (p pair) key() string { return p.agent + " " + p.other }

func (p pair) refuse(code, before string) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code, Message: before + p.what, Try: "garrison image list " + p.other}
}

// wrong returns the pairs that do not work together and did before, by name.
func (o *ordering) wrong(state map[string]*imagev1.Manifest) (out []pair) {
	for _, agent := range slices.Sorted(maps.Keys(state)) {
		m := state[agent]
		for _, q := range m.Requires {
			have := state[q.Agent]
			p := pair{agent, q.Agent, fmt.Sprintf("%s %s requires %s %s", agent, m.Version, q.Agent, q.Versions)}
			if have != nil && image.Works(q, have.Version) || o.before[p.key()] {
				continue
			}
			if p.what += ", and it is not there"; have != nil {
				p.what = strings.TrimSuffix(p.what, ", and it is not there") + ", and " + have.Version + " is there"
			}
			out = append(out, p)
		}
		for _, other := range m.Conflicts {
			p := pair{agent, other, fmt.Sprintf("%s %s conflicts with %s", agent, m.Version, other)}
			if state[other] != nil && !o.before[p.key()] {
				out = append(out, p)
			}
		}
	}
	return out
}

// number sets the steps of the changes: related agents follow each other, the others begin together.
func (o *ordering) number(t *rolloutv1.Target, found []int) {
	at := make([]int, len(o.chains))
	var placed []*rolloutv1.Change
	for _, n := range found {
		c := o.chains[n][at[n]]
		at[n]++
		c.Step = 1
		for _, before := range placed {
			if o.related(c.Agent, before.Agent) {
				c.Step = max(c.Step, before.Step+1)
			}
		}
		placed = append(placed, c)
	}
	t.Changes = placed
	slices.SortStableFunc(t.Changes, func(a, b *rolloutv1.Change) int {
		return cmp.Compare(rollout.StepOf(a), rollout.StepOf(b))
	})
}

// related reports whether the changes of two agents must not begin together.
func (o *ordering) related(a, b string) bool {
	return a == b || o.after[a][b] || o.after[b][a] || o.names(a, b) || o.names(b, a)
}

// names reports whether an image of one agent, before or after a change, requires another agent or conflicts with it.
func (o *ordering) names(a, b string) bool {
	return slices.ContainsFunc(append([]*imagev1.Manifest{o.there[a]}, o.next[a]...), func(m *imagev1.Manifest) bool {
		return image.Requirement(m, b) != nil || slices.Contains(m.GetConflicts(), b)
	})
}
