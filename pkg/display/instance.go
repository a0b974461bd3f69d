package display

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Instance is an instance with the name and presence of its server.
type Instance = *registryv1.InstanceRow

// Instances lists instances.
var Instances = listing.Listing[Instance]{
	Name:  func(r Instance) string { return r.GetServerName() + "/" + agentName(r) },
	Order: "server",
	Columns: []listing.Column[Instance]{
		listing.Col("SERVER", Instance.GetServerName),
		listing.Col("AGENT", agentName),
		listing.Col("WANTED", func(r Instance) string { return r.GetInstance().GetWanted().GetVersion() }),
		listing.Col("FOUND", func(r Instance) string { return r.GetInstance().GetObserved().GetVersion() }),
		listing.Col("HEALTH", instanceHealth),
		{Title: "STATE", Value: instanceState},
		listing.Since("SINCE", func(r Instance) *timestamppb.Timestamp { return r.GetInstance().GetSince() }),
		{Title: "NEXT", Value: instanceNext},
		listing.Col("REASON", func(r Instance) string { return r.GetInstance().GetReason() }),
		listing.Wide("HELD", func(r Instance) string { return listing.Yes(r.GetHold() != nil) }),
		listing.Wide("PRESENCE", func(r Instance) string { return listing.Word(r.GetPresence()) }),
		{Title: "CONFIRMED", Wide: true, Value: func(_ listing.View, r Instance) string {
			return confirmedText(r.GetInstance().GetConfirmedAt())
		}},
		{Title: "AGE", Wide: true, Value: func(v listing.View, r Instance) string {
			return confirmedAge(v, r.GetInstance().GetConfirmedAt())
		}},
		listing.Wide("GENERATION", func(r Instance) string {
			return listing.Count(r.GetInstance().GetGeneration())
		}).Numeric(),
		listing.Wide("ID", func(r Instance) string { return r.GetInstance().GetId() }),
		listing.Wide("SERVER-ID", func(r Instance) string { return r.GetInstance().GetServerId() }),
		listing.Wide("IMAGE", func(r Instance) string { return r.GetInstance().GetWanted().GetId() }),
		listing.Wide("TASK", func(r Instance) string { return r.GetInstance().GetTaskId() }),
		listing.Wide("INTENT", func(r Instance) string { return r.GetInstance().GetIntentId() }),
		listing.Wide("PROPERTIES", func(r Instance) string {
			return listing.Pairs(r.GetExternal().GetExternal().GetFound().GetProperties())
		}),
	},
}

// agentName returns an instance's agent; of an external instance with its own name.
func agentName(r Instance) string {
	if x := r.GetExternal().GetExternal(); x != nil {
		return x.GetAgent() + "/" + x.GetFound().GetName()
	}
	return r.GetInstance().GetAgent()
}

// serverOffline reports whether nothing is known of an instance since its server went offline.
func serverOffline(r Instance) bool {
	return r.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE && r.GetExternal() == nil
}

// instanceHealth returns an instance's health; one that was good is not known while its server is offline.
func instanceHealth(r Instance) string {
	if serverOffline(r) && r.GetInstance().GetHealth() == instancev1.Health_HEALTH_GOOD {
		return "unknown"
	}
	return listing.Word(r.GetInstance().GetHealth())
}

// instanceState returns an instance's state: for one that was as wanted, that its server is offline, and for how long;
// for an external one, also the age of its last report.
func instanceState(v listing.View, r Instance) string {
	switch x := r.GetExternal(); {
	case serverOffline(r) && r.GetInstance().GetState() == instancev1.State_STATE_CONVERGED:
		return strings.TrimSpace("offline " + listing.Age(v, r.GetOfflineSince()))
	case x == nil:
		return listing.Word(r.GetInstance().GetState())
	case x.GetStale():
		return "external,stale"
	}
	return "external"
}

// confirmedText returns when a server last confirmed what is recorded, or that the registry does not know.
func confirmedText(at *timestamppb.Timestamp) string {
	if at == nil {
		return "unknown"
	}
	return listing.Stamp(at)
}

// confirmedAge returns how long ago a server last confirmed what is recorded, or that the registry does not know.
func confirmedAge(v listing.View, at *timestamppb.Timestamp) string {
	if at == nil {
		return "unknown"
	}
	return listing.Span(v.At.Sub(at.AsTime()))
}

// keepText returns how to stay with the version that runs in place of a blocked one, or nothing.
func keepText(r Instance) string {
	i := r.GetInstance()
	have := i.GetObserved().GetVersion()
	if have == "" || have == i.GetWanted().GetVersion() {
		return ""
	}
	return "; to stay at " + have + ": garrison up " + i.GetAgent() + "@" + have + " --on " + r.GetServerName()
}

// instanceNext returns what happens next to an instance, or what an operator can do.
func instanceNext(v listing.View, r Instance) string {
	i := r.GetInstance()
	if r.GetExternal() != nil {
		return "reported " + confirmedAge(v, i.GetConfirmedAt()) + " ago"
	}
	if r.GetHold() != nil {
		return HoldText(r.GetHold())
	}
	if r.GetBlock() != nil && i.GetState() != instancev1.State_STATE_CONVERGED {
		return BlockText(r.GetBlock()) + keepText(r)
	}
	away := r.GetPresence() != serverv1.Presence_PRESENCE_ONLINE
	switch i.GetState() {
	case instancev1.State_STATE_PENDING, instancev1.State_STATE_REMOVING:
		if away {
			return "waits for the server"
		}
		if i.GetTaskId() != "" {
			return "task " + ident.Short(i.GetTaskId())
		}
		return "task"
	case instancev1.State_STATE_FAILED, instancev1.State_STATE_DRIFTED:
		if i.GetTaskId() != "" && instance.EndedBadly(i.GetTaskState()) {
			return "garrison task show " + ident.Short(i.GetTaskId())
		}
		if code.Restarted(i.GetObservedCode()) {
			return "garrison logs " + r.GetServerName() + " " + i.GetAgent()
		}
		return "garrison explain " + r.GetServerName() + " " + i.GetAgent()
	}
	if r.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE {
		return "the server is offline"
	}
	return ""
}

// ByHand returns what it means that an executor was installed on its machine; empty for any other instance.
func ByHand(r Instance) string {
	if !r.GetByHand() {
		return ""
	}
	return "installed on the machine: nothing upgrades it until garrison install has it wanted"
}

// Drift describes what is done about drift in an environment.
func Drift(d *registryv1.EnvironmentDrift) string {
	text := listing.Word(d.GetPolicy())
	if d.GetPolicy() != environmentv1.DriftPolicy_DRIFT_POLICY_HEAL {
		return text
	}
	if b := d.GetBraked(); b != nil {
		return fmt.Sprintf("%s, braked since %s: %d of %d online servers drifted, more than %d %%", text,
			listing.Stamp(b.GetSince()), b.GetDrifting(), b.GetOnline(), b.GetPercent())
	}
	return fmt.Sprintf("%s, with a brake at %d %%", text, d.GetBrakePercent())
}
