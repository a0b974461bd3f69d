package intent

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/noun/block"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

func lacksAgent(agent string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.NoInstances, Message: fmt.Sprintf("it lacks agent %q, or the agent is being removed", agent),
		Try: "garrison install " + agent + " --on SELECTOR",
	}
}

func alreadyInstalled(q *intentv1.Install) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.AlreadyInstalled, Message: fmt.Sprintf("agent %q is wanted there at another image", q.GetAgent()),
		Try: "garrison up " + Chosen(q.GetAgent(), q.GetImage()) + " " + selector.Flags(q.GetOn()),
	}
}

// newerRuns explains that a server keeps a version that is higher than the chosen one, which was not named.
func newerRuns(have *instancev1.Instance, w want, placed *imagev1.Ref) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:    code.NewerRuns,
		Message: fmt.Sprintf("%s %s is newer than %s", have.Agent, placed.GetVersion(), w.image.Version),
		Try:     fmt.Sprintf("garrison up %s@%s --on SELECTOR", w.agent, w.image.Version),
	}
}

// failedBefore explains that an image failed on a server before and was not named.
func failedBefore(agent string, i *imagev1.Ref) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.FailedBefore, Message: fmt.Sprintf("%s %s failed there before", agent, i.GetVersion()),
		Try: fmt.Sprintf("garrison up %s@%s --on SELECTOR -m WHY", agent, i.GetVersion()),
	}
}

// failedOnAll explains that a default does not bring a build that failed wherever it came.
func failedOnAll(s *blockv1.Suspect, w want, environment string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:    code.FailedBefore,
		Message: block.Words(s.Build) + " failed and works on no server, so no default brings it",
		Try:     fmt.Sprintf("garrison env default %s %s@VERSION, another version", environment, w.agent),
	}
}

// notPlaced explains that a configuration finds no version to keep.
func notPlaced(have *instancev1.Instance) *apiv1.Refusal {
	v := have.GetWanted().GetVersion()
	return &apiv1.Refusal{
		Code: code.NotPlaced,
		Message: fmt.Sprintf("%s %s is wanted but was never installed there, so nothing runs; a value that it lacked "+
			"is set first, with garrison agent update", have.Agent, v),
		Try: fmt.Sprintf("garrison up %s@%s --on SELECTOR -m WHY", have.Agent, v),
	}
}

// unmanaged returns why an agent that no instance explains keeps a default from installing it, or nil.
func unmanaged(agent string, s *serverv1.Server) *apiv1.Refusal {
	for _, f := range s.GetFound() {
		if f.Agent == agent && f.OtherServerId == "" && f.OtherRoot == "" {
			return &apiv1.Refusal{
				Code:    code.UnmanagedAgent,
				Message: fmt.Sprintf("agent %q is there and no instance explains it, so no default installs it", agent),
				Try:     fmt.Sprintf("garrison explain %s; garrison install %s --on %s", s.Name, agent, s.Name),
			}
		}
	}
	return nil
}

// nothingLeft refuses an intent that would change nothing and finds no server as requested: with the
// only reason, or with all of them, counted.
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
	return o.leftOutRefusal(code.NothingLeft, "nothing can be changed")
}

// allPassedOver refuses an intent that applies to none of the selected servers, or an installation
// that finds only other images.
func (o *outcome) allPassedOver(n int) *apiv1.Refusal {
	agent := agentOf(o.ask.Intent)
	first := o.reasons()[0]
	for _, r := range o.reasons() {
		if r.Effect == passedOver {
			first = r
		}
	}
	switch {
	case first.Code == code.AlreadyInstalled:
		return &apiv1.Refusal{
			Code:    code.AlreadyInstalled,
			Message: fmt.Sprintf("agent %q is wanted on all selected servers; on %d at another image", agent, n),
			Try:     first.First.Try,
		}
	case o.counts[already] > 0:
		return nil
	}
	return &apiv1.Refusal{
		Code:    first.Code,
		Message: fmt.Sprintf("no selected server has agent %q (searched: %d)", agent, n),
		Try:     first.First.Try,
	}
}

// leftOutRefusal refuses an intent for the servers that it would leave out: with their reason when it
// is the same for all, otherwise with code.
func (o *outcome) leftOutRefusal(code, what string) *apiv1.Refusal {
	var order, counted []string
	var first *apiv1.Refusal
	codes, counts := 0, map[string]uint32{}
	for _, r := range o.reasons() {
		if r.Effect != leftOut && r.Effect != passedOver {
			continue
		}
		if counts[r.Code] += r.Count; counts[r.Code] == r.Count {
			order = append(order, r.Code)
		}
		if r.Effect == leftOut {
			if codes++; first == nil {
				first = r.First
			}
		}
	}
	for _, c := range order {
		counted = append(counted, fmt.Sprintf("%d %s", counts[c], c))
	}
	refusal := &apiv1.Refusal{Code: first.Code, Message: first.Message, Nearest: first.Nearest, Try: first.Try}
	if codes > 1 {
		refusal.Code, refusal.Nearest, refusal.Try = code, "", "run it with --dry-run, which lists every server"
	}
	if len(o.targets)+o.unnamed > 1 {
		refusal.Message = fmt.Sprintf("%s on %d servers: %s; the first: %s",
			what, len(o.targets)+o.unnamed, strings.Join(counted, ", "), first.Message)
	}
	return refusal
}
