package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/intents"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// API answers requests about rollouts.
type API struct {
	records  *records.Records
	lookup   *intents.Lookup
	presence Presence
	log      zerolog.Logger
}

// NewAPI returns what answers requests about rollouts.
func NewAPI(r *records.Records, l *intents.Lookup, p Presence, log zerolog.Logger) *API {
	return &API{records: r, lookup: l, presence: p, log: log}
}

// plan returns what a rollout would do if it were accepted now. It writes nothing.
func (a *API) plan(
	ctx context.Context, c bus.Caller, q *registryv1.PlanRolloutRequest,
) (*registryv1.PlanRolloutResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	in := proto.CloneOf(q.Intent)
	if in.GetRollout() == nil {
		return nil, request.Invalid(code.Malformed, "the intent is no rollout")
	}
	if !q.EveryAgent && (len(q.Exclude) > 0 || q.Repair) || q.EveryAgent && len(in.GetRollout().Steps) > 0 {
		return nil, request.Invalid(code.Malformed, "a rollout has steps, or is for every agent without those excluded")
	}
	// A plan that lacks what the caller did a moment ago would be stale at once.
	if err := a.records.Decider.CatchUp(ctx); err != nil {
		return nil, err
	}
	past, err := a.lookup.Undone(ctx, in)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.PlanRolloutResponse{}
	a.records.Follower.Read(func() {
		if q.EveryAgent {
			if err = a.everyAgent(in, q); err != nil {
				return
			}
		}
		p := rolling.Plan(a.records.View, intent.Ask{
			Actor: c.Actor, Verb: topology.VerbRollout, Intent: in, At: a.records.Now(), Secrets: a.records.Secrets,
			Wrong: a.records.SealedWrong(in), Undone: past,
		})
		resp.Intent, resp.Steps, resp.Waves, resp.Owed = p.Intent, p.Steps, p.Waves, p.Owed
		resp.Strategy, resp.Refusal, resp.Title = p.Strategy, p.Refusal, p.Title
		resp.Values, resp.MoreValues, resp.StartAt = p.Values, p.More, p.StartAt
		resp.Uncovered, resp.MoreUncovered = a.uncovered(p)
		cost := rolling.CostOf(a.records.View, p, p.Begins(a.records.Now()))
		resp.Bytes, resp.Closed, resp.ClosedBecause = cost.Bytes, uint32(cost.Closed), cost.Because
		resp.Primed = uint32(cost.Primed)
		if !cost.Until.IsZero() {
			resp.ClosedUntil = timestamppb.New(cost.Until)
		}
		if p.Refusal == nil && q.Page.GetCursor() == "" {
			a.addOthers(resp, p)
			a.addUnlabelled(resp, p)
		}
		err = a.planPage(resp, p.Targets, q.Page.GetCursor(), limit)
		resp = proto.CloneOf(resp) // its parts belong to the view
	})
	return request.Answer(resp, err)
}

// mostUncovered is how many combinations a plan names that no canary covers.
const mostUncovered = 20

// uncovered returns the combinations that the canaries of a plan are to cover and do not, and how many more there are.
// It must run inside Read.
func (a *API) uncovered(p rolling.Planned) (first []string, more uint32) {
	if stages := p.Strategy.GetStages(); len(stages) == 0 || stages[0].GetCanaries() == 0 {
		return nil, 0
	}
	var candidates []rollout.Candidate
	var layout rollout.Layout
	for _, t := range p.Targets {
		s, _ := a.records.View.Server(t.ServerId)
		candidates = append(candidates, rollout.Candidate{ServerID: t.ServerId, Fields: rolling.Fields(s)})
		layout.Placements = append(layout.Placements, rollout.Placement{ServerID: t.ServerId, Wave: t.Wave})
	}
	all := rollout.Uncovered(candidates, p.Strategy, layout)
	first = all[:min(mostUncovered, len(all))]
	return first, uint32(len(all) - len(first))
}

// everyAgent adds an upgrade of each agent on the selected servers, or its repair. It must run inside Read.
func (a *API) everyAgent(in *intentv1.Intent, asked *registryv1.PlanRolloutRequest) error {
	q := in.GetRollout()
	like := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{On: q.On}}}
	all, refusal := intent.EveryAgent(a.records.View, like, asked.Exclude)
	if refusal != nil {
		return request.NotFound(refusal)
	}
	var out []string
	try := ""
	for _, one := range all {
		agent := intent.AgentOf(one)
		step := &intentv1.Step{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent}}}
		if asked.Repair {
			step.Change = &intentv1.Step_Configure{Configure: &intentv1.Configure{Agent: agent, Repair: true}}
		}
		ask := intent.Ask{Intent: rolling.Ask(step, q.On), Walk: true, At: a.records.Now()}
		p := intent.Plan(a.records.View, ask)
		if p.Changed > 0 {
			q.Steps = append(q.Steps, step)
		}
		for _, r := range p.Reasons {
			if r.Effect == intentv1.Effect_EFFECT_LEFT_OUT {
				out = append(out, fmt.Sprintf("%s: %d left out: %s: %s", agent, r.Count, r.Code, r.First.GetMessage()))
				try = cmp.Or(try, r.First.GetTry())
			}
		}
	}
	if len(q.Steps) > 0 {
		return nil
	}
	why := "no agent on the selected servers has a newer image"
	if asked.Repair {
		why = "no agent on the selected servers drifts"
	}
	if len(out) > 0 {
		why += " that it may get: " + strings.Join(out, "; ")
	}
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code.NothingLeft, Message: why, Try: try})
}

// planPage adds one part of the targets. The cursor is the position of the next one.
func (a *API) planPage(
	resp *registryv1.PlanRolloutResponse, targets []*rolloutv1.Target, cursor string, limit int,
) error {
	from := 0
	if cursor != "" {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > len(targets) {
			return request.Invalid(code.Invalid, "cursor %q is not one that a plan returned", cursor)
		}
	}
	size := 0
	for n, t := range targets[from:] {
		bytes := proto.Size(t)
		if n == limit || n > 0 && size+bytes > page.Bytes {
			resp.NextCursor = strconv.Itoa(from + n)
			break
		}
		resp.Targets, size = append(resp.Targets, a.row(t)), size+bytes
	}
	return nil
}

func (a *API) row(t *rolloutv1.Target) *registryv1.RolloutTarget {
	s, _ := a.records.View.Server(t.ServerId)
	return &registryv1.RolloutTarget{Target: t, ServerName: s.GetName()}
}

// find returns the rollout with an id, or with the only id that starts so. It must run inside Read.
func (a *API) find(reference string) (*rolloutv1.Rollout, error) {
	if r, ok := a.records.View.Rollout(reference); ok {
		return r, nil
	}
	var found *rolloutv1.Rollout
	var ids []string
	for _, r := range a.records.View.Rollouts() {
		if reference != "" && strings.HasPrefix(r.Id, reference) {
			found, ids = r, append(ids, r.Id)
		}
	}
	switch len(ids) {
	case 0:
		return nil, request.NotFound(rolling.UnknownRollout(reference))
	case 1:
		return found, nil
	}
	return nil, fault.Refuse(fault.Conflict, rolling.AmbiguousRollout(reference, ids))
}

// get returns a rollout, what it waits for, and why its servers are not as they should be.
func (a *API) get(
	_ context.Context, _ bus.Caller, q *registryv1.GetRolloutRequest,
) (*registryv1.GetRolloutResponse, error) {
	resp := &registryv1.GetRolloutResponse{}
	var err error
	a.records.Follower.Read(func() {
		var r *rolloutv1.Rollout
		if r, err = a.find(q.RolloutId); err != nil {
			return
		}
		resp.Rollout, resp.Reasons, resp.Restoring = r, a.reasons(r.Id), a.records.View.CountUnrestored(r.Id)
		if in, kept := a.records.View.Intent(r.Id); kept {
			resp.Note = in.Intent.GetNote()
		}
		d := a.next(r)
		if resp.WaitsFor = d.Waits; !d.Next.IsZero() {
			resp.NextAt = timestamppb.New(d.Next)
		}
		a.addUnused(resp, r)
		resp = proto.CloneOf(resp)
	})
	return request.Answer(resp, err)
}

// next returns what comes next for a rollout. It must run inside Read.
func (a *API) next(r *rolloutv1.Rollout) rollout.Decision {
	in := rolling.Input(a.records.View, r, &rolloutv1.Basis{At: timestamppb.New(a.records.Now())})
	in.Unprimed = nil // what is fetched ahead holds nothing up, and may take a look at all servers
	return rollout.Decide(in).Hold(r, a.presence.held(r))
}

// namedByRolloutReason is how many servers a reason names.
const namedByRolloutReason = 10

// reasons counts the targets that are broken, left out or owed. It must run inside Read.
func (a *API) reasons(id string) (out []*registryv1.RolloutReason) {
	for _, state := range []rolloutv1.TargetState{
		rolloutv1.TargetState_TARGET_STATE_BROKEN, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT,
		rolloutv1.TargetState_TARGET_STATE_OWED,
	} {
		byCode := map[string]*registryv1.RolloutReason{}
		for t := range a.records.View.TargetsOf(id, state) {
			back := state == rolloutv1.TargetState_TARGET_STATE_BROKEN && rolling.IsBack(a.records.View, t)
			key := fmt.Sprint(t.GetReason().GetComponent(), " ", t.GetReason().GetCode(), " ", t.FailedStep, back)
			r := byCode[key]
			if r == nil {
				r = &registryv1.RolloutReason{
					State: state, Code: t.GetReason().GetCode(), Component: t.GetReason().GetComponent(),
					First: t.GetReason().GetMessage(), Step: t.FailedStep, Back: back,
				}
				if r.First == "" {
					r.First = unserved(t)
				}
				byCode[key], out = r, append(out, r)
			}
			if r.Count++; len(r.ServerNames) < namedByRolloutReason {
				r.ServerNames = append(r.ServerNames, a.row(t).ServerName)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *registryv1.RolloutReason) int { return int(y.Count) - int(x.Count) })
	return out
}

// unserved returns why a server without a reason of its own is owed; "" for one in another state.
func unserved(t *rolloutv1.Target) string {
	switch {
	case t.State != rolloutv1.TargetState_TARGET_STATE_OWED:
		return ""
	case t.Wave == 0:
		return t.Because
	}
	return "not changed before the rollout ended"
}

// List lists rollouts, the newest first. The cursor is the id of the last one.
func (a *API) List(
	_ context.Context, _ bus.Caller, q *registryv1.ListRolloutsRequest,
) (*registryv1.ListRolloutsResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListRolloutsResponse{Waits: map[string]*registryv1.RolloutWait{}}
	a.records.Follower.Read(func() {
		after := q.Page.GetCursor() == ""
		for _, r := range a.records.View.Rollouts() {
			match := (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
				(q.Agent == "" || slices.Contains(r.Agents, q.Agent)) &&
				(!q.Owing || rollouts.InState(r, rolloutv1.TargetState_TARGET_STATE_OWED) > 0)
			if after && match {
				if len(resp.Rollouts) == limit {
					resp.NextCursor = resp.Rollouts[limit-1].Id
					break
				}
				resp.Rollouts = append(resp.Rollouts, r)
				a.addWait(resp, r)
			}
			after = after || r.Id == q.Page.GetCursor()
		}
		resp = proto.CloneOf(resp)
	})
	return resp, nil
}

// addWait adds what a rollout that runs waits for. It must run inside Read.
func (a *API) addWait(resp *registryv1.ListRolloutsResponse, r *rolloutv1.Rollout) {
	if r.State != rolloutv1.State_STATE_RUNNING {
		return
	}
	if d := a.next(r); d.Waits != "" {
		resp.Waits[r.Id] = &registryv1.RolloutWait{Text: d.Waits, Immovable: d.Immovable}
	}
}

// Targets lists the servers of a rollout, by id. The cursor is the id of the last one.
func (a *API) Targets(
	_ context.Context, _ bus.Caller, q *registryv1.ListRolloutTargetsRequest,
) (*registryv1.ListRolloutTargetsResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListRolloutTargetsResponse{}
	a.records.Follower.Read(func() {
		var r *rolloutv1.Rollout
		if r, err = a.find(q.RolloutId); err != nil {
			return
		}
		if n := q.GetWave(); n > uint32(len(r.Waves)) {
			err = noWave(r, n)
			return
		}
		size := 0
		for t := range a.records.View.Targets(r.Id, q.Page.GetCursor()) {
			if len(q.States) > 0 && !slices.Contains(q.States, t.State) || q.Wave != nil && t.Wave != *q.Wave {
				continue
			}
			bytes := proto.Size(t)
			if len(resp.Targets) == limit || size > 0 && size+bytes > page.Bytes {
				resp.NextCursor = resp.Targets[len(resp.Targets)-1].Target.ServerId
				break
			}
			resp.Targets, size = append(resp.Targets, a.withStep(t)), size+bytes
		}
		resp = proto.CloneOf(resp)
	})
	return request.Answer(resp, err)
}

// noWave refuses the number of a wave that a rollout does not have.
func noWave(r *rolloutv1.Rollout, wave uint32) error {
	have := "1 wave"
	if n := len(r.Waves); n != 1 {
		have = fmt.Sprintf("%d waves", n)
	}
	return fault.Refusef(fault.Invalid, code.BadStrategy, "there is no wave %d: rollout %s has %s", wave, r.Id, have).
		Try("garrison rollout show " + r.Id)
}

// wavePassed refuses to stop after a wave that has passed, and names those that are left.
func wavePassed(r *rolloutv1.Rollout, wave, next uint32) error {
	left := fmt.Sprintf("only wave %d is left", next)
	if n := uint32(len(r.Waves)); next < n {
		left = fmt.Sprintf("waves %d to %d are left", next, n)
	}
	return fault.Refusef(fault.Invalid, code.BadStrategy, "wave %d of rollout %s has passed; %s", wave, r.Id, left).
		Try(fmt.Sprintf("garrison rollout resume %s --until-wave %d", r.Id, next))
}

// notFit refuses to do something to a rollout in its state.
func notFit(r *rolloutv1.Rollout, what string) error {
	return notFitTry(r, what, "garrison rollout show "+r.Id)
}

// notFitTry is notFit with a command to use instead.
func notFitTry(r *rolloutv1.Rollout, what, try string) error {
	state := strings.ToLower(strings.TrimPrefix(r.State.String(), "STATE_"))
	return fault.Refusef(fault.Conflict, code.RolloutNotFit, "rollout %s is %s: %s", r.Id, state, what).Try(try)
}
