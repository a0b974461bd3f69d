package rolling

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// A rollout may end with changes that hold for servers that come later: a default of an environment, or images that a
// channel offers. They are recorded in one step with its success.

// mostThen bounds what a rollout records in the end.
const mostThen = 8

// ending plans what is recorded once every wave passed.
type ending struct{ *planner }

// then plans what is recorded once every wave passed.
func (p ending) then(q *intentv1.Rollout) *apiv1.Refusal {
	if n := len(q.Then); n > mostThen {
		return malformed("a rollout ends with %d changes; %d are the most", n, mostThen)
	}
	for _, s := range q.Then {
		var why *apiv1.Refusal
		beside := 0 // servers that it reaches beside those of the rollout
		s = proto.CloneOf(s)
		s.Was = nil
		switch c := s.Change.(type) {
		case *rolloutv1.Standing_Default:
			c.Default.ReachAll, c.Default.AllSince = true, nil
			if why = p.thenDefault(c.Default); why == nil {
				beside, why = p.beside(c.Default)
			}
		case *rolloutv1.Standing_Promotion:
			why = p.thenPromotion(c.Promotion)
		default:
			why = malformed("the rollout ends with a change that is empty")
		}
		if why != nil {
			return why
		}
		p.Then = append(p.Then, s)
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(s)
		p.lines = append(p.lines, fmt.Sprintf("then %x", text))
		p.Title += "; then " + ThenText(s)
		if beside > 0 {
			p.Title += fmt.Sprintf(" (at once on others: %d)", beside)
			p.lines = append(p.lines, fmt.Sprintf("beside %d", beside))
		}
	}
	return nil
}

func malformed(format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code.Malformed, Message: fmt.Sprintf(format, args...)}
}

// thenDefault checks a default that the rollout ends with.
func (p ending) thenDefault(d *rolloutv1.StandingDefault) *apiv1.Refusal {
	e, ok := p.reader.Environment(d.Environment)
	if !ok {
		return selector.UnknownEnvironment(p.reader, d.Environment)
	}
	agent, ok := p.reader.Agent(d.Agent)
	if !ok {
		return intent.UnknownAgent(p.reader, d.Agent)
	}
	if !p.brings(d.Agent) {
		return malformed("the rollout ends with a default for agent %q, and no step of it brings that agent", d.Agent)
	}
	_, why := image.Choose(p.reader, image.Want{Agent: agent, Choice: ChoiceOf(d), Channel: e.Channel})
	if why.GetCode() == code.UnknownChannel || why.GetCode() == code.WrongKind ||
		why.GetCode() == code.NoMatch && image.Named(ChoiceOf(d)) {
		return why
	}
	if err := metadata.Check(d.Metadata); err != nil {
		return fault.RefusalOf(err)
	}
	if err := metadata.CheckKeptSecret(e.GetDefaults()[d.Agent].GetMetadata(), d.Metadata); err != nil {
		return fault.RefusalOf(err)
	}
	return nil
}

// beside returns how many servers a default reaches at once, because the rollout does not bring them the agent: it does
// not select them, or its step passes them over. It refuses too many.
func (p ending) beside(d *rolloutv1.StandingDefault) (n int, why *apiv1.Refusal) {
	for s := range p.reader.ServersWhere(d.Environment, nil) {
		_, has := p.reader.Instance(s.Id, d.Agent)
		brought := slices.ContainsFunc(p.byServer[s.Id].GetChanges(), func(c *rolloutv1.Change) bool {
			return c.Agent == d.Agent && c.To != nil
		})
		if !has && !brought && s.Life == serverv1.Life_LIFE_ALIVE {
			n++
		}
	}
	if n <= intent.MostAtOnce {
		return n, nil
	}
	agent := intent.Chosen(d.Agent, ChoiceOf(d))
	return n, intent.TooWide(fmt.Sprintf("the default of environment %q would, beside the rollout, install %s",
		d.Environment, d.Agent), n, fmt.Sprintf("--install %s --on env=%s; or, after the rollout, garrison env "+
		"default %s %s --reach new", agent, d.Environment, d.Environment, agent))
}

// brings reports whether a step of the rollout brings an agent.
func (p ending) brings(agent string) bool {
	return slices.ContainsFunc(p.ask.Intent.GetRollout().GetSteps(), func(s *intentv1.Step) bool {
		in := Ask(s, nil)
		return intent.AgentOf(in) == agent && (in.GetInstall() != nil || in.GetUpgrade() != nil)
	})
}

// thenPromotion checks a promotion, and completes it with the images that the rollout brings.
func (p ending) thenPromotion(s *rolloutv1.StandingPromotion) *apiv1.Refusal {
	if len(s.ImageIds) > 0 {
		return malformed("a promotion names images; it is for those that the rollout brings")
	}
	if _, ok := p.reader.Channel(s.Channel); !ok {
		return image.UnknownChannel(p.reader, s.Channel)
	}
	last := map[string]bool{} // the image at the end of each way
	for _, t := range p.byServer {
		byAgent := map[string]*rolloutv1.Change{}
		for _, c := range t.Changes {
			if have := byAgent[c.Agent]; have == nil || c.GetStep() >= have.GetStep() {
				byAgent[c.Agent] = c
			}
		}
		for _, c := range byAgent {
			if c.To != nil && !image.Same(c.From, c.To) {
				last[c.To.Id] = true
			}
		}
	}
	if len(last) == 0 {
		return malformed("the rollout ends with a promotion to channel %q, and it brings no image", s.Channel)
	}
	for id := range last {
		s.ImageIds = append(s.ImageIds, id)
	}
	slices.Sort(s.ImageIds)
	return nil
}

// ThenText returns what a rollout ends with, in words.
func ThenText(s *rolloutv1.Standing) string {
	if d := s.GetDefault(); d != nil {
		return "default of " + d.Environment
	}
	return "promotion to " + s.GetPromotion().GetChannel()
}

// ChoiceOf returns the choice of the image of a default.
func ChoiceOf(d *rolloutv1.StandingDefault) *intentv1.ImageChoice {
	switch by := d.GetImage().(type) {
	case *rolloutv1.StandingDefault_Version:
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: by.Version}}
	case *rolloutv1.StandingDefault_ImageId:
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: by.ImageId}}
	case *rolloutv1.StandingDefault_Channel:
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: by.Channel}}
	}
	return nil
}

// standingOf returns a default as a rollout records what it replaced; nil for none.
func standingOf(environment, agent string, d *environmentv1.Default) *rolloutv1.StandingDefault {
	if d == nil {
		return nil
	}
	out := &rolloutv1.StandingDefault{
		Environment: environment, Agent: agent, Metadata: d.Metadata,
		ReachAll: d.Reach == environmentv1.Reach_REACH_ALL, AllSince: proto.Uint64(d.AllSince),
	}
	switch by := d.Image.GetBy().(type) {
	case *intentv1.ImageChoice_Version:
		out.Image = &rolloutv1.StandingDefault_Version{Version: by.Version}
	case *intentv1.ImageChoice_ImageId:
		out.Image = &rolloutv1.StandingDefault_ImageId{ImageId: by.ImageId}
	case *intentv1.ImageChoice_Channel:
		out.Image = &rolloutv1.StandingDefault_Channel{Channel: by.Channel}
	}
	return proto.CloneOf(out)
}

// Standing is what is recorded about an environment beside a fact about a rollout.
type Standing struct {
	Environment string
	Body        proto.Message
}

// Record returns what a rollout that succeeds ends with: as its last fact records it, and what is recorded beside it. A
// default whose environment has gone is left out, and one for an agent whose default was asked for after the rollout.
func Record(r Reader, record *rolloutv1.Rollout) (then []*rolloutv1.Standing, beside []Standing) {
	for _, s := range record.Then {
		s = proto.CloneOf(s)
		switch c := s.Change.(type) {
		case *rolloutv1.Standing_Default:
			d := c.Default
			e, ok := r.Environment(d.Environment)
			if _, known := r.Agent(d.Agent); !ok || !known {
				continue
			}
			have := e.Defaults[d.Agent]
			if askedAt(r, have) > record.PlannedSequence {
				continue
			}
			s.Was = standingOf(d.Environment, d.Agent, have)
			fact := setFact(d)
			fact.RolloutId, fact.Since, fact.Owners = record.Id, record.PlannedSequence, have.GetOwners()
			beside = append(beside, Standing{d.Environment, fact})
		case *rolloutv1.Standing_Promotion:
			offered, _ := r.Channel(c.Promotion.Channel)
			c.Promotion.ImageIds = slices.DeleteFunc(c.Promotion.ImageIds, func(id string) bool {
				return slices.Contains(offered.GetImageIds(), id)
			})
		}
		then = append(then, s)
	}
	return then, beside
}

// askedAt returns the ledger's sequence at which a default was asked for: with the plan of the rollout that brought it,
// or when it was set.
func askedAt(r Reader, d *environmentv1.Default) uint64 {
	if by, ok := r.Rollout(d.GetRolloutId()); ok {
		return by.PlannedSequence
	}
	return d.GetRevision()
}

// TakeBack returns what an undo of a rollout takes back of what it ended with, unless it was changed since.
func TakeBack(r Reader, past *rolloutv1.Rollout) (taken []*rolloutv1.Standing, beside []Standing) {
	if !past.ThenRecorded || past.State == rolloutv1.State_STATE_UNDONE {
		return nil, nil // it had not recorded anything, or the undo before took it back
	}
	for _, s := range past.Then {
		if d := s.GetDefault(); d != nil {
			e, _ := r.Environment(d.Environment)
			have := e.GetDefaults()[d.Agent]
			if have.GetRolloutId() != past.Id {
				continue
			}
			var body proto.Message = &environmentv1.DefaultUnset{Agent: d.Agent}
			if s.Was != nil {
				set := setFact(s.Was)
				set.KeepReach, set.Owners, set.AllSince = true, have.Owners, s.Was.AllSince
				body = set
			}
			beside = append(beside, Standing{d.Environment, body})
		}
		taken = append(taken, s)
	}
	return taken, beside
}

func setFact(d *rolloutv1.StandingDefault) *environmentv1.DefaultSet {
	reach := environmentv1.Reach_REACH_NEW
	if d.ReachAll {
		reach = environmentv1.Reach_REACH_ALL
	}
	return &environmentv1.DefaultSet{Agent: d.Agent, Image: ChoiceOf(d), Metadata: d.Metadata, Reach: reach}
}

// ahead is the view in which the defaults that a rollout ends with hold already: their values configure the agent on
// the servers of the rollout, so that servers that come later have the same configuration.
type ahead struct {
	Reader
	environments map[string]*environmentv1.Environment
}

// Ahead returns a view in which the defaults that a rollout ends with hold.
func Ahead(r Reader, then []*rolloutv1.Standing) Reader {
	out := &ahead{Reader: r, environments: map[string]*environmentv1.Environment{}}
	for _, s := range then {
		d := s.GetDefault()
		e, ok := r.Environment(d.GetEnvironment())
		if !ok || d == nil {
			continue
		}
		next := out.environments[d.Environment]
		if next == nil {
			next = proto.CloneOf(e)
			out.environments[d.Environment] = next
		}
		if next.Defaults == nil {
			next.Defaults = map[string]*environmentv1.Default{}
		}
		next.Defaults[d.Agent] = &environmentv1.Default{Image: ChoiceOf(d), Metadata: d.Metadata}
	}
	if len(out.environments) == 0 {
		return r
	}
	return out
}

// Environment returns an environment by name.
func (a *ahead) Environment(name string) (*environmentv1.Environment, bool) {
	if e, ok := a.environments[name]; ok {
		return e, true
	}
	return a.Reader.Environment(name)
}

// Drafts returns what a rollout ends with as drafts, each guarded by its environment.
func Drafts(r Reader, beside []Standing, fact func(environment string, body proto.Message, turn int) ledger.Fact) (
	drafts []ledger.Draft,
) {
	guarded := map[string]bool{}
	for n, s := range beside {
		f := fact(s.Environment, s.Body, n)
		if guarded[s.Environment] { // the first of its facts guards the batch
			drafts = append(drafts, ledger.Free(f))
			continue
		}
		guarded[s.Environment] = true
		drafts = append(drafts, ledger.OnKey(f, r.Sequence(ledger.Environment, s.Environment)))
	}
	return drafts
}
