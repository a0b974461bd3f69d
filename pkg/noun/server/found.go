package server

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// CompareFound orders unmanaged agents. It ignores since when each is known.
func CompareFound(a, b *serverv1.FoundAgent) int {
	return cmp.Or(
		cmp.Compare(a.Agent, b.Agent),
		cmp.Compare(a.Trace, b.Trace),
		cmp.Compare(a.Path, b.Path),
		bytes.Compare(a.Digest, b.Digest),
		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.ImageId, b.ImageId),
		cmp.Compare(a.OtherServerId, b.OtherServerId),
		cmp.Compare(a.OtherRoot, b.OtherRoot),
	)
}

// recordFound replaces the list of unmanaged agents. One that was listed before keeps its time.
func recordFound(s *serverv1.Server, f *serverv1.AgentsFound, at time.Time) {
	before := s.Found
	s.Found, s.FoundMore, s.FoundAt = nil, f.GetMore(), timestamppb.New(at)
	for _, a := range f.GetAgents() {
		next := proto.CloneOf(a)
		next.Since = s.FoundAt
		if i := slices.IndexFunc(before, func(b *serverv1.FoundAgent) bool { return CompareFound(a, b) == 0 }); i >= 0 {
			next.Since = before[i].Since
		}
		s.Found = append(s.Found, next)
	}
}

// keepFound keeps the unmanaged agents of a server that died, except those that certainly belong
// to another server or root.
func keepFound(s *serverv1.Server) {
	for _, f := range s.Found {
		if f.OtherServerId == "" && f.OtherRoot == "" {
			s.FoundAtDeath = append(s.FoundAtDeath, f)
		}
	}
	s.FoundAtDeathMore = s.FoundMore
	s.Found, s.FoundMore, s.FoundAt = nil, 0, nil
}
