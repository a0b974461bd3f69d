package intent

import (
	"fmt"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// The codes of why a server does not change, and of why an intent is refused for it.
const (
	codeNoInstances      = "NO_INSTANCES"
	codeAlreadyInstalled = "ALREADY_INSTALLED"
	codeNewerRuns        = "NEWER_RUNS"
	codeFailedBefore     = "FAILED_BEFORE"
	codeNotPlaced        = "NOT_PLACED"
	codeChangedSince     = "CHANGED_SINCE"
	codeNotUndoable      = "NOT_UNDOABLE"
	codeNeededBy         = "NEEDED_BY"
	codeNothingLeft      = "NOTHING_LEFT"
	codeLeftOut          = "LEFT_OUT"
	codePlanStale        = "PLAN_STALE"
)

func lacksAgent(agent string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: codeNoInstances, Message: fmt.Sprintf("it lacks agent %q, or the agent is leaving", agent),
		Try: "garrison install " + agent + " --on SELECTOR",
	}
}

func alreadyInstalled(agent string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: codeAlreadyInstalled, Message: fmt.Sprintf("it has agent %q at another image", agent),
		Try: "garrison up " + agent + " --on SELECTOR",
	}
}

// newerRuns says that a server keeps a version that is higher than what was chosen without a name.
func newerRuns(have *instancev1.Instance, w want, placed *imagev1.Ref) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:    codeNewerRuns,
		Message: fmt.Sprintf("%s %s is newer than %s", have.Agent, placed.GetVersion(), w.image.Version),
		Try:     fmt.Sprintf("garrison up %s@%s --on SELECTOR, to go down to it", w.agent, w.image.Version),
	}
}

// failedBefore says that an image failed on a server and was not named now.
func failedBefore(agent string, i *imagev1.Ref) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: codeFailedBefore, Message: fmt.Sprintf("%s %s failed there before", agent, i.GetVersion()),
		Try: fmt.Sprintf("garrison up %s@%s --on SELECTOR, to try it again", agent, i.GetVersion()),
	}
}

// notPlaced says that there is no version that a configuration could keep.
func notPlaced(have *instancev1.Instance) *apiv1.Refusal {
	v := have.GetWanted().GetVersion()
	return &apiv1.Refusal{
		Code:    codeNotPlaced,
		Message: fmt.Sprintf("%s %s is wanted and never came there, so nothing runs", have.Agent, v),
		Try:     fmt.Sprintf("garrison up %s@%s --on SELECTOR, to try it again", have.Agent, v),
	}
}

// nothingLeft refuses an intent that would change nothing and finds nothing as asked: with
// the one reason there is, or with all of them, counted.
func (o *outcome) nothingLeft() *apiv1.Refusal {
	if o.changed() > 0 || len(o.targets)+o.unnamed == 0 {
		return nil
	}
	if n := o.counts[passedOver]; n > 0 && o.left() == 0 {
		return o.allPassedOver(n)
	}
	if o.counts[already] > 0 || o.left() == 0 {
		return nil
	}
	return o.leftOutRefusal(codeNothingLeft, "nothing is left to do")
}

// allPassedOver refuses an intent that is about none of the selected servers, or finds only
// other images where it is to install.
func (o *outcome) allPassedOver(n int) *apiv1.Refusal {
	agent := agentOf(o.ask.Intent)
	first := o.reasons()[0]
	for _, r := range o.reasons() {
		if r.Effect == passedOver {
			first = r
		}
	}
	switch {
	case first.Code == codeAlreadyInstalled:
		return &apiv1.Refusal{
			Code:    codeAlreadyInstalled,
			Message: fmt.Sprintf("agent %q is on all selected servers; %d want another image", agent, n),
			Try:     first.First.Try,
		}
	case o.counts[already] > 0:
		return nil
	}
	return &apiv1.Refusal{
		Code:    first.Code,
		Message: fmt.Sprintf("no selected server has agent %q (%d servers searched)", agent, n),
		Try:     first.First.Try,
	}
}

// leftOutRefusal refuses an intent for the servers that it would leave out: with the reason
// when there is one only, otherwise with code.
func (o *outcome) leftOutRefusal(code, what string) *apiv1.Refusal {
	var counted []string
	var first *apiv1.Refusal
	codes := 0
	for _, r := range o.reasons() {
		if r.Effect != leftOut && r.Effect != passedOver {
			continue
		}
		counted = append(counted, fmt.Sprintf("%d %s", r.Count, r.Code))
		if r.Effect == leftOut {
			if codes++; first == nil {
				first = r.First
			}
		}
	}
	refusal := &apiv1.Refusal{Code: first.Code, Message: first.Message, Nearest: first.Nearest, Try: first.Try}
	if codes > 1 {
		refusal.Code, refusal.Nearest, refusal.Try = code, "", "the same with --dry-run, which lists every server"
	}
	if len(o.targets)+o.unnamed > 1 {
		refusal.Message = fmt.Sprintf("%s on %d servers: %s; the first: %s",
			what, len(o.targets)+o.unnamed, strings.Join(counted, ", "), first.Message)
	}
	return refusal
}
