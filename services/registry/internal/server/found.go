package server

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// What one server can make a fact hold: a server is not trusted with the size of the ledger.
const (
	maxFound     = 20
	maxFoundMore = 1 << 20
	maxName      = 64  // of agents, versions and ids
	maxPath      = 256 // of paths
)

// foundEvery is how often one server may change what was found on it, for the same reason.
const foundEvery = 10 * time.Second

// FoundLately says whether what was found changed so short a time ago that the next
// change waits. That nothing is there any more never waits: something must come before it
// is said again. A clock that was set back delays nothing.
func FoundLately(s *serverv1.Server, next *serverv1.AgentsFound, now time.Time) bool {
	if s.GetFoundAt() == nil || len(next.GetAgents()) == 0 && next.GetMore() == 0 {
		return false
	}
	ago := now.Sub(s.GetFoundAt().AsTime())
	return ago >= 0 && ago < foundEvery
}

// MayFindAgain says whether a change that waited waits no longer, also by the clock of
// another replica that is a little ahead or behind.
func MayFindAgain(s *serverv1.Server, now time.Time) bool {
	return now.Sub(s.GetFoundAt().AsTime()).Abs() >= foundEvery
}

// Found gives what a report says of agents that none of the server's instances explains,
// in order, each once, cut to what a fact may hold.
func Found(report *reportv1.AgentsReport, instances iter.Seq[*instancev1.Instance]) *serverv1.AgentsFound {
	known := map[string]string{}
	for i := range instances {
		known[i.Agent] = i.Id
	}
	var all []*serverv1.FoundAgent
	for _, f := range report.GetAgents() {
		if a := unexplained(f, known); a != nil {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, compareFound)
	all = slices.CompactFunc(all, func(a, b *serverv1.FoundAgent) bool { return proto.Equal(a, b) })
	kept := all[:min(len(all), maxFound)]
	more := uint64(len(all)-len(kept)) + uint64(report.GetMore())
	return &serverv1.AgentsFound{Agents: kept, More: uint32(min(more, maxFoundMore))}
}

// unexplained gives what is told of an agent unless one of the known instances, by agent,
// explains it; then it is nil.
func unexplained(f *reportv1.Found, known map[string]string) *serverv1.FoundAgent {
	instance, there := known[f.GetAgent()]
	trace, path := f.GetTrace(), f.GetPath()
	switch {
	case trace != serverv1.Trace_TRACE_UNSPECIFIED:
	case f.GetInstanceId() != "" && f.GetInstanceId() == instance:
		return nil
	case f.GetInstanceId() != "" && f.GetHealth() == instancev1.Health_HEALTH_ABSENT:
		return nil // nothing of it is there but a word about it
	case f.GetInstanceId() != "":
		trace, path = serverv1.Trace_TRACE_INSTANCE, f.GetInstanceId()
	case there:
		return nil // an executor that tells no traces: it is what is observed of the instance
	case f.GetPid() != 0:
		trace = serverv1.Trace_TRACE_PROCESS
	default:
		trace = serverv1.Trace_TRACE_LINK
	}
	digest := f.GetImage().GetDigest()
	return &serverv1.FoundAgent{
		Agent: clip(f.GetAgent(), maxName), Trace: trace, Path: clip(path, maxPath),
		Version: clip(f.GetImage().GetVersion(), maxName), ImageId: clip(f.GetImage().GetId(), maxName), Digest: digest[:min(len(digest), maxName)],
		OtherServerId: clip(f.GetOtherServerId(), maxName), OtherRoot: clip(f.GetOtherRoot(), maxPath),
	}
}

// Clip cuts a version or a name to what is kept of it.
func Clip(s string) string { return clip(s, maxName) }

// clip cuts a text, and never through a character.
func clip(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

func compareFound(a, b *serverv1.FoundAgent) int {
	return cmp.Or(
		cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Trace, b.Trace), cmp.Compare(a.Path, b.Path), bytes.Compare(a.Digest, b.Digest),
		cmp.Compare(a.Version, b.Version), cmp.Compare(a.ImageId, b.ImageId),
		cmp.Compare(a.OtherServerId, b.OtherServerId), cmp.Compare(a.OtherRoot, b.OtherRoot))
}

// SameFound says whether a server's row has what was found already.
func SameFound(s *serverv1.Server, f *serverv1.AgentsFound) bool {
	return s.GetFoundMore() == f.GetMore() && slices.EqualFunc(s.GetFound(), f.GetAgents(), sameTrace)
}

// sameTrace compares but for when each became known.
func sameTrace(a, b *serverv1.FoundAgent) bool { return compareFound(a, b) == 0 }

// find folds what was found into a row: what was there before keeps its time.
func find(s *serverv1.Server, f *serverv1.AgentsFound, at time.Time) {
	before := s.Found
	s.Found, s.FoundMore, s.FoundAt = nil, f.GetMore(), timestamppb.New(at)
	for _, a := range f.GetAgents() {
		next := proto.CloneOf(a)
		next.Since = s.FoundAt
		if i := slices.IndexFunc(before, func(b *serverv1.FoundAgent) bool { return sameTrace(a, b) }); i >= 0 {
			next.Since = before[i].Since
		}
		s.Found = append(s.Found, next)
	}
}
