package intent

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// MostAtOnce is how many servers a change reaches without waves, unless its request allows more.
const MostAtOnce = 100

// Waves is the strategy that refusals suggest.
const Waves = "--canaries 3 --waves 10%,50% --soak 5m"

// InWaves returns the command that brings a change to servers in waves.
func InWaves(change string, on *intentv1.Selector) string {
	return fmt.Sprintf("garrison rollout start %s %s %s", change, selector.Flags(on), Waves)
}

// RepairInWaves returns the command that repairs in waves what drifted on servers.
func RepairInWaves(on *intentv1.Selector) string { return InWaves("--repair --all", on) }

// TooWide refuses a change that would reach many servers at once.
func TooWide(what string, servers int, try string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.TooWide, Try: try,
		Message: fmt.Sprintf("%s at once on %d servers; %d are allowed without waves or --at-once", what, servers,
			MostAtOnce),
	}
}

// tooWide refuses an intent that would change many servers at once, unless it says so. What follows from a default or a
// rollout, and what a rollout plans, is not refused.
func (o *outcome) tooWide() *apiv1.Refusal {
	in, n := o.ask.Intent, o.changed()
	if n <= MostAtOnce || in.AtOnce || o.resumed || o.ask.Due != nil || o.ask.Walk {
		return nil
	}
	var what, change string
	var on *intentv1.Selector
	switch q := in.Ask.(type) {
	case *intentv1.Intent_Install:
		what, on = "the intent would install "+q.Install.Agent, q.Install.On
		change = "--install " + Chosen(q.Install.Agent, q.Install.Image)
	case *intentv1.Intent_Upgrade:
		if q.Upgrade.Again {
			return TooWide("the intent would start "+q.Upgrade.Agent+" again", n,
				"the same command with --batch 10%")
		}
		what, on = "the intent would upgrade "+q.Upgrade.Agent, q.Upgrade.On
		change = Chosen(q.Upgrade.Agent, q.Upgrade.Image)
	case *intentv1.Intent_Configure:
		what, change, on = "the intent would configure "+q.Configure.Agent, "--configure "+q.Configure.Agent,
			q.Configure.On
		if len(q.Configure.Set) > 0 {
			change += " --set NAME=VALUE"
		}
	case *intentv1.Intent_Remove:
		what, change, on = "the intent would remove "+q.Remove.Agent, "--remove "+q.Remove.Agent, q.Remove.On
	case *intentv1.Intent_Undo:
		return TooWide("the undo would change "+o.agentName(), n, "garrison undo "+q.Undo.IntentId+
			", which goes back in waves")
	default:
		return inParts(in, n)
	}
	if o.repairs() {
		change = "--repair " + agentOf(in)
	}
	return TooWide(what, n, InWaves(change, on))
}

// repairs reports whether the intent does nothing but to bring again what drifted.
func (o *outcome) repairs() bool {
	return !slices.ContainsFunc(o.targets, func(x target) bool {
		have, _ := o.reader.Instance(x.server.GetId(), x.agent)
		return x.effect == change && (x.move != intentv1.Move_MOVE_AGAIN || drift.Drifted(have) == "")
	})
}

// inParts refuses what no rollout does to many servers, and names the command for fewer of them. It returns nil for an
// intent that may reach any number.
func inParts(in *intentv1.Intent, servers int) *apiv1.Refusal {
	var what, command string
	var on *intentv1.Selector
	switch {
	case in.GetRefresh().GetPurgeKept():
		what, command, on = "delete what %d servers keep for a way back", "garrison undo --purge", in.GetRefresh().On
	case in.GetDecommission() != nil:
		what, command, on = "retire %d servers", "garrison server decommission", in.GetDecommission().On
	default:
		return nil
	}
	return &apiv1.Refusal{
		Code: code.TooWide, Try: fmt.Sprintf("%s %s --on LABEL=VALUE, part after part", command, selector.Flags(on)),
		Message: fmt.Sprintf("the intent would "+what+"; %d are allowed without --at-once", servers, MostAtOnce),
	}
}

// Chosen returns an agent with the choice of its image, as the CLI reads it.
func Chosen(agent string, i *intentv1.ImageChoice) string {
	for _, by := range []string{i.GetVersion(), i.GetImageId(), i.GetChannel()} {
		if by != "" {
			return agent + "@" + by
		}
	}
	return agent
}
