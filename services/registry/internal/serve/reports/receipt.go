package reports

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// HandleReceipt records that a server's executor removes itself. It is the only report that a dead
// server may send, and no other server may send it. Receipts about single agents stay in the stream;
// their tasks report how they ended. It is safe to run twice.
func (r *Handler) HandleReceipt(ctx context.Context, m bus.Message) error {
	from, _, err := topology.ParseReportSubject(m.Subject)
	if err != nil {
		return err
	}
	report := &reportv1.Report{}
	if err := readReport(m, report); err != nil {
		return err
	}
	receipt := report.GetReceipt()
	if report.ServerId != from.Server || receipt == nil {
		return fault.New(fault.Invalid, "the report on %s is of server %q and holds %s", m.Subject, report.ServerId,
			kindOf(report))
	}
	if receipt.Agent != "" {
		return nil
	}
	// The server learned of its end from the ledger, so the view must hold that fact too.
	if err := r.records.Decider.CatchUp(ctx); err != nil {
		return err
	}
	uninstalled := uninstalledBy(receipt)
	return r.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, _ := r.records.View.Server(from.Server)
		if s.GetLife() != serverv1.Life_LIFE_DEAD || s.Cell != from.Cell {
			r.log.Warn().
				Str(logs.Server, from.Server).
				Msg("ignored a receipt of a server that is not dead")
			return nil, nil
		}
		if s.UninstalledAt != nil {
			return nil, nil
		}
		return []ledger.Draft{r.draft(report, ledger.Server, s.Id, uninstalled)}, nil
	})
}

// uninstalledBy returns the fact that a receipt stands for.
func uninstalledBy(receipt *reportv1.ReceiptReport) *serverv1.Uninstalled {
	u := &serverv1.Uninstalled{LeftOwn: LeftOwn(receipt.Removed)}
	for _, p := range receipt.Removed {
		if p.LeftBecause == "" {
			u.Removed++
		} else {
			u.Left++
		}
	}
	return u
}

// LeftOwn counts the paths that were left and are not known to be foreign.
func LeftOwn(paths []*reportv1.Removed) (n uint32) {
	for _, p := range paths {
		if p.LeftBecause != "" && !p.Foreign {
			n++
		}
	}
	return n
}
