package registry

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// try returns what a refused request is to do instead.
func (s *site) try(method protoreflect.Name, q proto.Message) string {
	s.t.Helper()
	_, err := ask[*emptypb.Empty](s, method, q) // an answer would decode as an empty one
	if err == nil {
		s.t.Fatalf("%s was not refused", method)
	}
	return fault.RefusalOf(err).GetTry()
}
