package inventory

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Difference is an observation of an instance that is not recorded yet.
type Difference struct {
	Instance *instancev1.Instance
	Observed *instancev1.Observed
}

// Differences compares a server's instances with a report of everything found on it. Unmanaged
// deals with the rest of the report.
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
		o.Reason, o.Code, o.NextAt = f.GetReason(), f.GetCode(), f.GetNextAt()
		return o
	}
	o.Image, o.Health, o.Reason, o.Code = proto.CloneOf(f.Image), f.Health, f.Reason, f.Code
	o.ConfigurationDigest, o.Kept = f.ConfigurationDigest, f.Kept[:min(len(f.Kept), mostKept)]
	if f.InstanceId == i.Id {
		o.Generation = f.Generation
	}
	if o.Health == instancev1.Health_HEALTH_GOOD {
		o.Reason, o.Code = "", ""
	} else {
		o.NextAt = f.NextAt
	}
	return o
}

func differs(i *instancev1.Instance, o *instancev1.Observed) bool {
	if o.Health == instancev1.Health_HEALTH_ABSENT {
		return i.Observed != nil // an agent that was never there is no difference
	}
	return i.Health != o.Health || !instance.SameImage(i.Observed, o.Image) || !sameWords(o.Reason, i.ObservedReason) ||
		o.Code != i.ObservedCode || o.NextAt != nil && !proto.Equal(o.NextAt, i.ObservedNextAt) ||
		!bytes.Equal(i.ObservedConfigurationDigest, o.ConfigurationDigest) ||
		min(o.Generation, i.Generation) > i.ObservedGeneration || !slices.EqualFunc(i.Kept, o.Kept, sameKept)
}

// mostKept is how many kept versions of an instance are recorded.
const mostKept = 8

func sameKept(a, b *instancev1.Kept) bool { return proto.Equal(a, b) }

// sameWords reports whether two reasons differ in their numbers only, such as a count of restarts or a process id.
func sameWords(a, b string) bool { return withoutDigits(a) == withoutDigits(b) }

func withoutDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, s)
}
