package reports

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/inventory"
)

// recordAgents records both parts of an agents report: what it shows of the instances, and the
// unmanaged agents.
func (r *Handler) recordAgents(ctx context.Context, m bus.Message, report *reportv1.Report) (bool, error) {
	observed, err := r.recordObserved(ctx, report)
	if err != nil {
		return observed, err
	}
	unmanaged, err := r.recordUnmanaged(ctx, m, report)
	return observed || unmanaged, err
}

// recordObserved records what differs from what is recorded of the server's instances. An instance that
// changed too often waits for a recheck, and a later report that was recorded stands.
func (r *Handler) recordObserved(ctx context.Context, report *reportv1.Report) (recorded bool, err error) {
	if err := r.catchUp(ctx, report); err != nil {
		return false, err
	}
	err = r.records.Change(ctx, func() ([]ledger.Draft, error) {
		var drafts []ledger.Draft
		if s, _ := r.records.View.Server(report.ServerId); !r.records.Believed(s) {
			return nil, nil
		}
		for _, d := range inventory.Differences(r.records.View.InstancesOf(report.ServerId), report.GetAgents()) {
			d.Observed.Report, d.Observed.ReportedAt = report.GetSequence(), report.GetAt()
			if instance.Outdated(d.Instance, d.Observed) {
				continue
			}
			if !intake.ObservedMayChange(d.Instance, d.Observed, r.records.Now()) {
				r.rechecks.addObserved(d.Instance)
				continue
			}
			key := ledger.Key(d.Instance.ServerId, d.Instance.Agent)
			drafts = append(drafts, r.draft(report, ledger.Instance, key, d.Observed))
		}
		recorded = len(drafts) > 0
		return drafts[:min(len(drafts), topology.MaxBatch)], nil
	})
	return recorded, err
}

// recordUnmanaged records the list of unmanaged agents when it differs from the recorded one. When
// the list changed a moment ago, a recheck records the change later. It is safe to run twice: what
// is recorded no longer differs.
func (r *Handler) recordUnmanaged(
	ctx context.Context, m bus.Message, report *reportv1.Report,
) (recorded bool, err error) {
	if differs, err := r.unmanagedDiffers(ctx, m, report); !differs || err != nil {
		return false, err
	}
	err = r.records.Change(ctx, func() ([]ledger.Draft, error) {
		list, differs := r.unmanaged(report)
		if recorded = differs; !differs {
			return nil, nil
		}
		s, _ := r.records.View.Server(report.ServerId)
		if inventory.MustWait(s, list, r.records.Now()) {
			recorded = false
			r.rechecks.addList(s) // and the report is acknowledged
			return nil, nil
		}
		return []ledger.Draft{r.draft(report, ledger.Server, s.Id, list)}, nil
	})
	return recorded && err == nil, err
}

// unmanagedDiffers reports whether the list may have to be recorded. It returns true only when
// neither the report nor the view is out of date: an instance that this replica does not know yet,
// or that is gone since the report, must not be recorded as unmanaged.
func (r *Handler) unmanagedDiffers(ctx context.Context, m bus.Message, report *reportv1.Report) (bool, error) {
	var differs bool
	r.records.Follower.Read(func() { _, differs = r.unmanaged(report) })
	if !differs {
		return false, nil
	}
	if _, later, err := r.later(ctx, m); later || err != nil {
		return false, err // the later report decides
	}
	return true, r.catchUp(ctx, report)
}

// unmanaged returns the unmanaged agents in a report, and whether they differ from the recorded
// ones. It must run inside Read.
func (r *Handler) unmanaged(report *reportv1.Report) (*serverv1.AgentsFound, bool) {
	s, ok := r.records.View.Server(report.ServerId)
	if !ok || !r.records.Believed(s) {
		return nil, false
	}
	list := inventory.Unmanaged(report.GetAgents(), r.records.View.InstancesOf(s.Id))
	return list, !inventory.SameList(s, list)
}

// Recheck records a server's last report of a kind, when that differs from what is recorded. It
// reports whether it must be tried again. A forged report is left to its consumer, which dead-letters it.
func (r *Handler) Recheck(ctx context.Context, at topology.ServerAddress, kind string) (again bool) {
	once, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	record := map[string]handler{topology.ReportAgents: r.recordAgents, topology.ReportSysinfo: r.recordSysinfo}[kind]
	last, err := r.conn.DirectGet(once, topology.Reports, topology.ReportSubject(at, kind))
	if err == nil {
		last.Delivered = unknownFor
		err = r.handleLatest(once, last, kind, record)
	}
	if err == nil || ctx.Err() != nil || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return false
	}
	r.log.Debug().Err(err).Str(logs.Server, at.Server).Msg("recheck of the last report put off")
	return true
}
