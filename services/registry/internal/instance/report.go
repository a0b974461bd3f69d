package instance

import (
	"bytes"
	"iter"

	"google.golang.org/protobuf/proto"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Difference is what a report says about an instance that is not recorded yet.
type Difference struct {
	Instance *instancev1.Instance
	Observed *instancev1.Observed
}

// Differences compares a server's instances with a report of everything found on it. What
// was found and no instance explains is nobody's business here.
func Differences(instances iter.Seq[*instancev1.Instance], report *reportv1.AgentsReport) []Difference {
	found := make(map[string]*reportv1.Found, len(report.GetAgents()))
	for _, f := range report.GetAgents() {
		if f.GetTrace() == serverv1.Trace_TRACE_UNSPECIFIED {
			found[f.GetAgent()] = f
		}
	}
	var out []Difference
	for i := range instances {
		o := observation(i, found[i.Agent], report.GetDocumentGeneration())
		if differs(i, o) {
			out = append(out, Difference{i, o})
		}
	}
	return out
}

func observation(i *instancev1.Instance, f *reportv1.Found, generation uint64) *instancev1.Observed {
	o := &instancev1.Observed{InstanceId: i.Id, DocumentGeneration: generation, Health: instancev1.Health_HEALTH_ABSENT}
	if f.GetImage() == nil || f.Health == instancev1.Health_HEALTH_ABSENT {
		o.Reason = f.GetReason()
		return o
	}
	o.Image, o.Health, o.Reason = proto.CloneOf(f.Image), f.Health, f.Reason
	o.ConfigurationDigest = f.ConfigurationDigest
	if f.InstanceId == i.Id {
		o.Generation = f.Generation
	}
	if o.Health == instancev1.Health_HEALTH_GOOD {
		o.Reason = ""
	}
	return o
}

func differs(i *instancev1.Instance, o *instancev1.Observed) bool {
	if o.Health == instancev1.Health_HEALTH_ABSENT {
		return i.Observed != nil // one that was never there is not news
	}
	return i.Health != o.Health || !SameImage(i.Observed, o.Image) || o.Reason != i.ObservedReason ||
		!bytes.Equal(i.ObservedConfigurationDigest, o.ConfigurationDigest) ||
		min(o.Generation, i.Generation) > i.ObservedGeneration
}
