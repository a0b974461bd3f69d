package fold

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"
)

// inlineView is the largest canonical encoding that an answer carries whole.
const inlineView = 512 << 10

// rollCall is how long the processes of a service have to answer to one of them.
const rollCall = 500 * time.Millisecond

// Serve answers requests until ctx is done: those whose methods handle registers, then About, ListProcesses and View,
// and refuses every other.
func (f *Follower) Serve(
	ctx context.Context, built string, api protoreflect.ServiceDescriptor, handle func(*bus.Service) error,
) error {
	s, err := f.source.conn.NewService(f.opts.Service, built, api)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := errors.Join(handle(s), serveView(s, f, built), s.RefuseUnknown()); err != nil {
		return err
	}
	f.opts.Log.Info().Uint64(logs.Sequence, f.Position()).Msg("serving requests")
	close(f.serving)
	<-ctx.Done()
	return nil
}

// Serving returns a channel that closes when every request is answered. A request before may find no responder.
func (f *Follower) Serving() <-chan struct{} { return f.serving }

// serveView answers About, ListProcesses and View.
func serveView(s *bus.Service, f *Follower, built string) error {
	started, process := timestamppb.New(time.Now()), ident.New()
	about := func() *apiv1.AboutResponse {
		return &apiv1.AboutResponse{
			Service: f.opts.Service, Version: built, Position: f.Position(),
			Misfits: f.Misfits(), StartedAt: started, ProcessId: process,
			Unread: f.Unread(), Unfit: f.Unfit(), Contract: version.Contract,
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
	stop, err := bus.AnswerEach(f.source.conn, subject, about)
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
			all, err := bus.AskEach[*apiv1.AboutResponse](ctx, f.source.conn, subject)
			slices.SortFunc(all,
				func(a, b *apiv1.AboutResponse) int { return strings.Compare(a.ProcessId, b.ProcessId) })
			return &apiv1.ListProcessesResponse{Processes: all}, err
		},
	)
}

// Measure adds the follower's metrics and checks to a Set: whether the bus accepts it, and how far it has folded.
func (f *Follower) Measure(m *metrics.Set) {
	m.Gauge(metrics.BusConnected, func(context.Context) []metrics.Sample {
		return metrics.One(metrics.Is(f.source.conn.Connected()))
	})
	m.Gauge(metrics.FoldReady, func(context.Context) []metrics.Sample {
		return metrics.One(metrics.Is(f.progress().Ready))
	})
	m.Gauge(metrics.FoldPosition, func(context.Context) []metrics.Sample {
		return metrics.One(float64(f.Position()))
	})
	m.Gauge(metrics.FoldLag, func(ctx context.Context) []metrics.Sample {
		end, err := f.source.conn.Stream(ctx, topology.Ledger)
		if err != nil {
			return nil
		}
		return metrics.One(float64(end.LastSequence - min(f.Position(), end.LastSequence)))
	})
	m.Gauge(metrics.FoldUnread, func(context.Context) []metrics.Sample { return metrics.One(sum(f.Unread())) })
	m.Gauge(metrics.FoldUnfit, func(context.Context) []metrics.Sample { return metrics.One(sum(f.Unfit())) })
	m.Ready("bus", func(context.Context) error {
		if a := f.source.conn.Access(); !f.source.conn.Connected() {
			return fault.New(fault.Unavailable, "not connected: %s", a.Reason)
		}
		return nil
	})
	m.Ready("view", func(context.Context) error {
		select {
		case <-f.Ready():
			return nil
		default:
			return fault.New(fault.Unavailable, "replays the ledger, at %d", f.Position())
		}
	})
}

func sum(all []*viewv1.FactCount) (n float64) {
	for _, c := range all {
		n += float64(c.GetCount())
	}
	return n
}
