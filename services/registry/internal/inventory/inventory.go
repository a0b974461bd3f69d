// Package inventory compares a server's report of its agents with what the ledger holds: the
// differences from its instances, and the agents that belong to no instance.
//
// Guarantees:
//
//  1. Differences is empty when a report contains what is already recorded, so that only
//     differences become facts.
//  2. Unmanaged returns the same list in whatever order the report names the agents.
//  3. The list of unmanaged agents is bounded in size, and MustWait bounds how often it changes.
package inventory

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
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

func sameKept(a, b *imagev1.Kept) bool { return proto.Equal(a, b) }

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

// How many unmanaged agents a fact lists, and how many more it counts.
const (
	maxListed = 20
	maxMore   = 1 << 20
)

// listEvery is how often the list of one server's unmanaged agents may change.
const listEvery = 10 * time.Second

// MustWait reports whether the list changed so recently that the next change waits. An empty list
// never waits, because only a list that is not empty can follow it. A clock that was set back
// delays nothing.
func MustWait(s *serverv1.Server, next *serverv1.AgentsFound, now time.Time) bool {
	if s.GetFoundAt() == nil || len(next.GetAgents()) == 0 && next.GetMore() == 0 {
		return false
	}
	ago := now.Sub(s.GetFoundAt().AsTime())
	return ago >= 0 && ago < listEvery
}

// ListDue returns when a change that waited is due.
func ListDue(s *serverv1.Server) time.Time { return s.GetFoundAt().AsTime().Add(listEvery) }

// Unmanaged returns the agents in a report that belong to none of the server's instances, sorted, each
// once. It lists the first and counts the rest.
func Unmanaged(report *reportv1.AgentsReport, instances iter.Seq[*instancev1.Instance]) *serverv1.AgentsFound {
	known := map[string]string{}
	for i := range instances {
		known[i.Agent] = i.Id
	}
	var all []*serverv1.FoundAgent
	for _, f := range report.GetAgents() {
		if a := unmanaged(f, known); a != nil {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, server.CompareFound)
	all = slices.CompactFunc(all, func(a, b *serverv1.FoundAgent) bool { return proto.Equal(a, b) })
	listed := all[:min(len(all), maxListed)]
	more := uint64(len(all)-len(listed)) + uint64(report.GetMore())
	return &serverv1.AgentsFound{Agents: listed, More: uint32(min(more, maxMore))}
}

// unmanaged returns the entry for an agent that was found, or nil when it belongs to one of the
// known instances, whose ids are listed by agent.
func unmanaged(f *reportv1.Found, known map[string]string) *serverv1.FoundAgent {
	trace, path, managed := traceOf(f, known)
	if managed {
		return nil
	}
	return &serverv1.FoundAgent{
		Agent: f.GetAgent(), Trace: trace, Path: path, Version: f.GetImage().GetVersion(),
		ImageId: f.GetImage().GetId(), Digest: f.GetImage().GetDigest(), OtherServerId: f.GetOtherServerId(),
		OtherRoot: f.GetOtherRoot(),
	}
}

// traceOf returns by what an agent was found and where, and whether an instance accounts for it.
func traceOf(f *reportv1.Found, known map[string]string) (trace serverv1.Trace, path string, managed bool) {
	instance, exists := known[f.GetAgent()]
	switch {
	case f.GetTrace() != serverv1.Trace_TRACE_UNSPECIFIED:
		return f.GetTrace(), f.GetPath(), false
	case f.GetInstanceId() != "" && f.GetInstanceId() == instance:
		return 0, "", true
	case f.GetInstanceId() != "" && f.GetHealth() == instancev1.Health_HEALTH_ABSENT:
		return 0, "", true // only the executor's record of it is left
	case f.GetInstanceId() != "":
		return serverv1.Trace_TRACE_INSTANCE, f.GetInstanceId(), false
	case exists:
		return 0, "", true // an executor that reports no traces: this is what it observes of the instance
	case f.GetPid() != 0:
		return serverv1.Trace_TRACE_PROCESS, f.GetPath(), false
	}
	return serverv1.Trace_TRACE_LINK, f.GetPath(), false
}

// SameList reports whether a server's record already has the list.
func SameList(s *serverv1.Server, list *serverv1.AgentsFound) bool {
	return s.GetFoundMore() == list.GetMore() &&
		slices.EqualFunc(s.GetFound(), list.GetAgents(), func(a, b *serverv1.FoundAgent) bool {
			return server.CompareFound(a, b) == 0
		})
}
