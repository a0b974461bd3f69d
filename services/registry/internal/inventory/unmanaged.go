package inventory

import (
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

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
