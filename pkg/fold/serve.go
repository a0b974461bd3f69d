package fold

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// inlineView is the largest canonical encoding that an answer carries whole.
const inlineView = 512 << 10

// Serve answers About and View for the service whose view is followed.
func Serve(s *bus.Service, f *Follower, version string) error {
	started, process := timestamppb.New(time.Now()), ident.New()
	err := bus.Handle(s, "About", func(context.Context, bus.Caller, *apiv1.AboutRequest) (*apiv1.AboutResponse, error) {
		return &apiv1.AboutResponse{
			Service: f.opts.Service, Version: version, Position: f.Position(),
			Misfits: f.Misfits(), StartedAt: started, ProcessId: process,
		}, nil
	})
	if err != nil {
		return err
	}
	return bus.Handle(s, "View", func(context.Context, bus.Caller, *apiv1.ViewRequest) (*apiv1.ViewResponse, error) {
		position, encoding, err := f.Canonical()
		if err != nil {
			return nil, err
		}
		r := &apiv1.ViewResponse{Position: position, Digest: Digest(encoding), SizeBytes: uint64(len(encoding))}
		if len(encoding) <= inlineView {
			r.Canonical = encoding
		}
		return r, nil
	})
}
