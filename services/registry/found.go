package registry

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// findAgents records what is on a server and no instance explains, when that differs from
// what is recorded. When that changed a moment ago, lookAgain does so later. It is safe to
// run twice: what is recorded no longer differs.
func (r *Registry) findAgents(ctx context.Context, m bus.Message) (recorded bool, err error) {
	report, err := r.receive(m, topology.ReportAgents)
	if report == nil || err != nil {
		return false, err
	}
	if explained, err := r.explained(ctx, report, m); explained || err != nil {
		return false, err
	}
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		now, differs := r.unexplained(report)
		if recorded = differs; !differs {
			return nil, nil
		}
		s, _ := r.view.Server(report.ServerId)
		if server.FoundLately(s, now, r.Now()) {
			recorded = false
			r.remember(s.Id) // and the report is acknowledged
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.reported(report, ledger.Server, s.Id, now))}, nil
	})
	return recorded && err == nil, err
}

// explained says whether there is nothing to record. Before it says that there is, it
// makes sure that neither what is said nor what is known is out of date: an instance that
// this replica does not know yet, or that is gone since the report, must not be found.
func (r *Registry) explained(ctx context.Context, report *reportv1.Report, m bus.Message) (bool, error) {
	var differs bool
	look := func() { _, differs = r.unexplained(report) }
	if r.follower.Read(look); !differs {
		return true, nil
	}
	if _, later, err := r.later(ctx, m); later || err != nil {
		return later, err // whoever handles that one decides
	}
	return false, r.seenBy(ctx, report)
}

// unexplained gives what a report says was found, and whether that differs from what is
// recorded. It must run inside Read.
func (r *Registry) unexplained(report *reportv1.Report) (*serverv1.AgentsFound, bool) {
	s, ok := r.view.Server(report.ServerId)
	if !ok || !server.Managed(s) {
		return nil, false
	}
	now := server.Found(report.GetAgents(), r.view.InstancesOf(s.Id))
	return now, !server.SameFound(s, now)
}
