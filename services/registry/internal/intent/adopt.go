package intent

import (
	"fmt"
	"regexp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// isCandidate matches the id of a candidate that is a process or a service of systemd (systemd.unit(5)).
var isCandidate = regexp.MustCompile(
	`^(process/[1-9][0-9]{0,9}-[0-9]{1,20}|unit/[A-Za-z0-9:_.\\@-]{1,247}\.service)$`)

// adopt wants the process or the service that a candidate is as the agent. What runs on the server is not in the view,
// so the executor decides whether the candidate is what it was.
func adopt(o *outcome, q *intentv1.Adopt) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal == nil {
		refusal = checkCandidate(q)
	}
	if refusal != nil {
		return refusal
	}
	s, refusal := o.one(q.GetServer())
	if refusal != nil {
		return refusal
	}
	have, _ := o.reader.Instance(s.Id, agent.Name)
	if o.changedBefore(have) {
		o.addChanged(s, have)
		return nil
	}
	if have != nil && (have.Wanted != nil && instance.Placed(have) != nil || have.Observed != nil) {
		return &apiv1.Refusal{
			Code: code.AlreadyInstalled, Message: fmt.Sprintf("server %q has agent %q already", s.Name, agent.Name),
			Try: fmt.Sprintf("garrison instance show %s %s", s.Name, agent.Name),
		}
	}
	return take(o, agent, s, have, q)
}

// take wants the agent at the image for which the candidate is taken.
func take(
	o *outcome, agent *agentv1.Agent, s *serverv1.Server, have *instancev1.Instance, q *intentv1.Adopt,
) *apiv1.Refusal {
	chosen, refusal := o.chooser(agent, q.Image)(s)
	if refusal != nil {
		return refusal
	}
	if refusal := adoptable(agent, chosen.manifest); refusal != nil {
		return refusal
	}
	merged, refusal := merger(o, agent)(s, nil)
	if refusal == nil {
		refusal = o.fits(chosen.manifest, s)
	}
	if refusal == nil {
		o.bring(have, want{
			server: s, agent: agent.Name, image: chosen.ref, configuration: merged, candidate: q.Candidate,
		})
	}
	return refusal
}

// adoptable refuses an image that no running process can be. The executor refuses one with sockets: how an image
// runs is not in the view.
func adoptable(agent *agentv1.Agent, m *imagev1.Manifest) *apiv1.Refusal {
	if m.GetKind() == agentv1.Kind_KIND_DAEMON {
		return nil
	}
	return &apiv1.Refusal{
		Code:    code.NotAdoptable,
		Message: fmt.Sprintf("version %s of agent %q is no daemon", m.GetVersion(), agent.Name),
		Try:     "garrison install " + agent.Name,
	}
}

// checkCandidate refuses an id that no process and no service has.
func checkCandidate(q *intentv1.Adopt) *apiv1.Refusal {
	if isCandidate.MatchString(q.GetCandidate()) {
		return nil
	}
	return &apiv1.Refusal{
		Code:    code.NotAdoptable,
		Message: fmt.Sprintf("%.64q is neither process/ID-START nor unit/NAME.service", q.GetCandidate()),
		Try:     fmt.Sprintf("garrison instance adopt %s --list --listening", q.GetServer()),
	}
}

// one returns the living server that a reference names.
func (q *question) one(reference string) (*serverv1.Server, *apiv1.Refusal) {
	if reference == "" {
		return nil, &apiv1.Refusal{Code: code.EmptySelector, Message: "no server is named", Try: "garrison server list"}
	}
	s, refusal := selector.Find(q.reader, reference)
	if refusal == nil && !server.Living(s) {
		refusal = selector.NotAlive(s)
	}
	return s, refusal
}

// release unwants an adopted agent, and leaves its process running.
func release(o *outcome, q *intentv1.Release) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	s, refusal := o.one(q.GetServer())
	if refusal != nil {
		return refusal
	}
	have, _ := o.reader.Instance(s.Id, agent.Name)
	switch {
	case o.changedBefore(have):
		o.addChanged(s, have)
		return nil
	case have == nil:
		lacks := lacksAgent(agent.Name)
		lacks.Try = "garrison instance list --agent " + agent.Name
		return lacks
	case have.Adoption == nil:
		return &apiv1.Refusal{
			Code: code.NotAdopted, Message: fmt.Sprintf("agent %q on server %q is not adopted", agent.Name, s.Name),
			Try: fmt.Sprintf("garrison remove %s --on %s", agent.Name, s.Name),
		}
	case have.Wanted == nil && have.State != instancev1.State_STATE_FAILED:
		o.isAlready(s, agent.Name, have, nil)
		return nil
	}
	if why := o.needed(s, have); why != nil {
		return why
	}
	u := &instancev1.Unwanted{
		InstanceId: have.Id, Generation: have.Generation + 1, IntentId: o.ask.ID, Release: true,
	}
	o.change(ledger.Instance, ledger.Key(s.Id, have.Agent), u, u.Generation)
	o.add(target{
		server: s, agent: have.Agent, from: have.Observed, effect: change, move: intentv1.Move_MOVE_RELEASE,
	})
	return nil
}
