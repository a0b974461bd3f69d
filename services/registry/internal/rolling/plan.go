package rolling

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// Reader is the view that a plan reads.
type Reader interface {
	intent.Reader
	Target(rollout, server string) (*rolloutv1.Target, bool)
	Targets(rollout, after string) iter.Seq[*rolloutv1.Target]
	LastPart() uint64
	Recording(but string) string
	Rollouts() []*rolloutv1.Rollout
	Intent(id string) (*intentv1.Record, bool)
	Hold(id string) (*holdv1.Hold, bool)
}

// maxSteps bounds the changes of one server, which are released in one atomic batch.
const maxSteps = 32

// Planned is what a rollout would do now.
type Planned struct {
	Intent   *intentv1.Intent // with the guard of the plan
	Strategy *rolloutv1.Strategy
	Targets  []*rolloutv1.Target // by wave; those that are owed come last
	Waves    []uint32
	Owed     uint32
	Agents   []string
	Title    string
	Undoes   string                 // the rollout or the intent
	StartAt  *timestamppb.Timestamp // not before this time does the first wave begin; nil means at once
	Then     []*rolloutv1.Standing  // what is recorded once every wave passed
	Steps    []*intentv1.Plan
	Values   []*registryv1.ValueChange // of agents that are there before and after
	More     uint32                    // how many more changes of values there are
	Refusal  *apiv1.Refusal            // nil when it would be accepted
	sum      []byte
}

// planner is a plan in the making.
type planner struct {
	Planned
	reader   Reader
	ask      intent.Ask
	byServer map[string]*rolloutv1.Target
	seen     *seeing
	lines    []string // what the guard covers
	values   intent.ValueChanges
	pinned   map[string]bool // the agents whose image follows from what the rollout brought to others
	holds    hold.Index

	inherited bool // the strategy is that of the rollout that is undone
}

func newPlanner(r Reader, a intent.Ask) *planner {
	p := &planner{reader: r, ask: a, byServer: map[string]*rolloutv1.Target{}, values: intent.ValueChanges{},
		holds: hold.NewIndex(r, a.At),
	}
	p.seen = &seeing{Ahead(r, a.Intent.GetRollout().GetThen()), map[string]map[string]*instancev1.Instance{}}
	return p
}

// Plan returns what a rollout would do if it were accepted now.
func Plan(r Reader, a intent.Ask) Planned {
	q := a.Intent.GetRollout()
	p := newPlanner(r, a)
	p.Undoes, p.Strategy, p.StartAt = q.GetUndoOf(), q.GetStrategy(), q.GetStartAt()
	refusal := cmp.Or(intent.Malformed(a), p.starts())
	if refusal == nil && p.Undoes != "" {
		refusal = wayBack{p}.undo(q)
	} else if refusal == nil {
		refusal = p.steps(q)
	}
	if refusal == nil {
		refusal = p.overlaps()
	}
	if refusal == nil {
		refusal = ending{p}.then(q)
	}
	if refusal == nil {
		refusal = placing{p}.place()
	}
	if refusal == nil {
		refusal = placing{p}.wide()
	}
	p.seal(refusal)
	p.Values, p.More = p.values.List()
	return p.Planned
}

// steps plans each change as an intent of its own.
func (p *planner) steps(q *intentv1.Rollout) *apiv1.Refusal {
	if n := len(q.Steps); n == 0 || n > maxSteps {
		return &apiv1.Refusal{
			Code:    code.Malformed,
			Message: fmt.Sprintf("the rollout changes %d agents; it changes at least 1 and at most %d", n, maxSteps),
			Try:     "--exclude AGENT, and a second rollout of those",
		}
	}
	for _, step := range q.Steps {
		if Ask(step, q.On) == nil {
			return &apiv1.Refusal{Code: code.Malformed, Message: "a step of the rollout has no change"}
		}
	}
	var last *apiv1.Refusal
	for _, step := range inTurn(p.reader, q.Steps) {
		one := Ask(step, q.On)
		one.Strict, one.Note = p.ask.Intent.Strict, p.ask.Intent.Note
		ask := intent.Ask{
			Actor: p.ask.Actor, Intent: one, At: p.ask.At, Secrets: p.ask.Secrets, Walk: true,
			Pinned: p.pinned[intent.AgentOf(one)],
		}
		plan := intent.Plan(p.seen, ask)
		if slices.Contains(p.Agents, plan.Agent) {
			return &apiv1.Refusal{Code: code.Malformed, Message: fmt.Sprintf("two steps change agent %q", plan.Agent)}
		}
		if plan.Refusal != nil {
			if last = plan.Refusal; plan.Empty() || one.Strict {
				return last
			}
		}
		plan.Intent = nil
		p.Agents, p.Steps = append(p.Agents, plan.Agent), append(p.Steps, plan.Plan)
		p.title(step, plan)
		plan.Changes(func(c intent.Change) { p.add(c, one.GetConfigure().GetRepair() || one.GetUpgrade().GetAgain()) })
		plan.Changes(p.seen.see)
	}
	if why := p.order(); why != nil {
		return why
	}
	if len(p.byServer) == 0 {
		return cmp.Or(last, p.leftOut(), p.noneChanges())
	}
	return nil
}

func (p *planner) title(step *intentv1.Step, plan intent.Planned) {
	word := strings.TrimPrefix(fmt.Sprintf("%T", step.Change), "*intentv1.Step_")
	title := strings.ToLower(word) + " " + plan.Agent
	if step.GetConfigure().GetRepair() {
		title = "repair " + plan.Agent
	} else if step.GetUpgrade().GetAgain() && step.GetUpgrade().GetImage() == nil {
		title = "restart " + plan.Agent
	}
	var versions []string
	for _, c := range plan.Chosen {
		if v := c.GetImage().GetVersion(); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if len(versions) > 0 {
		title += " to " + strings.Join(versions, ", ")
	}
	p.Title = strings.TrimPrefix(p.Title+"; "+title, "; ")
}

// add adds a change of a server to its target. One that may be a repair is, where it brings what is wanted already.
func (p *planner) add(c intent.Change, repair bool) {
	have, _ := p.reader.Instance(c.Server.Id, c.Agent)
	t, from, configuration := p.target(c.Server.Id), c.From, digest(have.GetConfiguration())
	for _, m := range c.Hops {
		hop := &rolloutv1.Change{
			Agent: c.Agent, From: from, To: image.Ref(m), FromConfiguration: configuration,
			ToConfiguration: digest(c.Configuration),
		}
		t.Changes, from, configuration = append(t.Changes, hop), hop.To, hop.ToConfiguration
	}
	change := &rolloutv1.Change{
		Agent: c.Agent, From: from, To: c.To, FromConfiguration: configuration,
		Repair: repair && image.Same(have.GetWanted(), c.To) && configuration == digest(c.Configuration),
	}
	if c.To != nil {
		change.ToConfiguration = digest(c.Configuration)
		if have != nil {
			p.values.Add(c.Agent, have.GetConfiguration().GetMetadata(), c.Configuration.GetMetadata())
		}
	}
	t.Changes = append(t.Changes, change)
}

func (p *planner) target(id string) *rolloutv1.Target {
	t := p.byServer[id]
	if t == nil {
		t = &rolloutv1.Target{ServerId: id}
		p.byServer[id] = t
	}
	return t
}

func digest(c *instancev1.Configuration) string { return hex.EncodeToString(c.GetDigest()) }

// overlaps refuses a rollout that changes an agent on a server which another one that has not ended changes too.
func (p *planner) overlaps() *apiv1.Refusal {
	for _, id := range p.serverIDs() {
		if why := p.overlap(id); why != nil {
			return why
		}
	}
	return nil
}

// overlap refuses to change a server on which another rollout that has not ended changes an agent too.
func (p *planner) overlap(id string) *apiv1.Refusal {
	for _, other := range p.reader.RolloutsOn(id) {
		r, _ := p.reader.Rollout(other)
		if r == nil || rollouts.Ended(r.State) || other == p.Undoes || p.Strategy.GetEmergency() {
			continue
		}
		theirs, _ := p.reader.Target(other, id)
		if agent := rollouts.Common(p.byServer[id], theirs); agent != "" {
			s, _ := p.reader.Server(id)
			return &apiv1.Refusal{
				Code: code.RolloutOverlaps, Message: fmt.Sprintf(
					"rollout %s (%s) changes agent %q on server %q too, and has not ended",
					ident.Handle(r.Id), r.Title, agent, s.GetName()),
				Try: "garrison rollout show " + ident.Handle(r.Id) + ", or rollout abort " + ident.Handle(r.Id),
			}
		}
	}
	return nil
}

func (p *planner) serverIDs() []string {
	out := make([]string, 0, len(p.byServer))
	for id := range p.byServer {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (p *planner) hash() []byte {
	strategy, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p.ask.Intent.GetRollout().GetStrategy())
	sum := sha256.New()
	fmt.Fprintf(sum, "%x\n", strategy)
	for _, line := range p.lines {
		fmt.Fprintln(sum, line)
	}
	return sum.Sum(nil)
}

// seal adds the guard to the plan, and refuses a rollout whose own guard no longer holds.
func (p *planner) seal(refusal *apiv1.Refusal) {
	p.Intent, p.sum = proto.CloneOf(p.ask.Intent), p.hash()
	if title := p.ask.Intent.GetRollout().GetTitle(); title != "" {
		p.Title = title
	}
	guard := p.ask.Intent.GetGuard()
	passed := refusal.GetCode() == code.StartPassed // what the plan does may hold
	if guard != nil && !passed && (refusal != nil || !bytes.Equal(guard.TargetsSha256, p.sum)) {
		message := fmt.Sprintf(
			"the plan no longer holds: it changed %d servers, and now it would change %d in %d waves",
			guard.Changed, len(p.Targets), len(p.Waves))
		if refusal != nil {
			message += "; now " + refusal.Code + ": " + refusal.Message
		}
		refusal = &apiv1.Refusal{Code: code.PlanStale, Message: message, Try: "plan the rollout again"}
	}
	if p.Refusal = refusal; refusal != nil {
		refusal.Component = ledger.Registry
	}
	if p.Intent != nil {
		p.Intent.DryRun = false
		p.Intent.Guard = &intentv1.Guard{TargetsSha256: p.sum, Changed: uint32(len(p.Targets))}
	}
}

// Ask returns the intent of a step on the servers of a selector; nil for a step without a change.
func Ask(step *intentv1.Step, on *intentv1.Selector) *intentv1.Intent {
	switch c := proto.CloneOf(step).GetChange().(type) {
	case *intentv1.Step_Install:
		c.Install.On = on
		return &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: c.Install}}
	case *intentv1.Step_Upgrade:
		c.Upgrade.On = on
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: c.Upgrade}}
	case *intentv1.Step_Configure:
		c.Configure.On = on
		return &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: c.Configure}}
	case *intentv1.Step_Remove:
		c.Remove.On = on
		return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: c.Remove}}
	}
	return nil
}
