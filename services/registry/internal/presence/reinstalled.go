package presence

import (
	"iter"

	"google.golang.org/protobuf/proto"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// DecideReinstalled returns the fact that ends a reinstall, or nil: no instance is left, and the server's executor
// said for this reinstall that it kept nothing.
func DecideReinstalled(s *serverv1.Server, last Beat, instances iter.Seq[*instancev1.Instance]) proto.Message {
	under := s.GetReinstall()
	if under == nil || last.Reset != under.IntentId || s.Duplicate != nil {
		return nil
	}
	for range instances {
		return nil
	}
	return &serverv1.Reinstalled{IntentId: under.IntentId}
}
