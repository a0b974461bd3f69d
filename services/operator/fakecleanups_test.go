package operator

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

func tombstone(name string) *serverv1.Tombstone {
	return &serverv1.Tombstone{
		ServerId:  ident.From(name),
		Cell:      "main",
		SignedAt:  timestamppb.New(noon),
		Signature: []byte("signed"),
	}
}

// cleanUps takes how clean-ups end; one that came by hand from nowhere is refused.
func (f *fakes) cleanUps(t testing.TB, s *bus.Service) {
	handle(
		t,
		f,
		s,
		"RecordCleanUp",
		func(q *registryv1.RecordCleanUpRequest) (*registryv1.RecordCleanUpResponse, error) {
			o := q.GetOutcome()
			if o.GetServerId() != ident.From("gone-1") || o.GetDryRun() {
				return nil, fault.Refuse(fault.Invalid,
					&apiv1.Refusal{Code: "BAD_CLEAN_UP", Message: "it is about another server"})
			}
			f.cleaned = &serverv1.CleanUp{
				At:     o.GetAt(),
				Actor:  "ann",
				Via:    q.GetVia(),
				Code:   o.GetRefusal().GetCode(),
				Reason: o.GetRefusal().GetMessage(),
			}
			return &registryv1.RecordCleanUpResponse{}, nil
		},
	)
}

func (f *fakes) withCleanUp(s *serverv1.Server) *serverv1.Server {
	if s.GetName() == "gone-1" {
		s.CleanUp = f.cleaned
	}
	return s
}
