package fold

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// inlineView is the largest canonical encoding that an answer carries whole.
const inlineView = 512 << 10

// rollCall is how long the processes of a service have to answer to one of them.
const rollCall = 500 * time.Millisecond

// Serve answers About, ListProcesses and View for the service whose view is followed.
func Serve(s *bus.Service, f *Follower, version string) error {
	started, process := timestamppb.New(time.Now()), ident.New()
	about := func() *apiv1.AboutResponse {
		return &apiv1.AboutResponse{
			Service: f.opts.Service, Version: version, Position: f.Position(),
			Misfits: f.Misfits(), StartedAt: started, ProcessId: process,
			Unread: f.Unread(), Unfit: f.Unfit(),
		}
	}
	err := bus.Handle(s, "About", func(context.Context, bus.Caller, *apiv1.AboutRequest) (*apiv1.AboutResponse, error) {
		return about(), nil
	})
	if err != nil {
		return err
	}
	if err := serveProcesses(s, f, about); err != nil {
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

// serveProcesses lets each process of a service ask all of them.
func serveProcesses(s *bus.Service, f *Follower, about func() *apiv1.AboutResponse) error {
	subject := topology.RollCallSubject(f.opts.Service)
	stop, err := bus.AnswerEach(f.conn, subject, about)
	if err != nil {
		return err
	}
	s.OnClose(stop)
	type request = *apiv1.ListProcessesRequest
	return bus.Handle(
		s,
		"ListProcesses",
		func(ctx context.Context, _ bus.Caller, _ request) (*apiv1.ListProcessesResponse, error) {
			ctx, cancel := context.WithTimeout(ctx, rollCall)
			defer cancel()
			all, err := bus.AskEach[*apiv1.AboutResponse](ctx, f.conn, subject)
			slices.SortFunc(all,
				func(a, b *apiv1.AboutResponse) int { return strings.Compare(a.ProcessId, b.ProcessId) })
			return &apiv1.ListProcessesResponse{Processes: all}, err
		},
	)
}
