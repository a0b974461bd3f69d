package registry

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

// handleReceipt records that a server's executor removes itself. It is the one thing that
// is believed of a dead server, and it is believed of no other. Receipts about single
// agents stay in the stream; their tasks say how they ended. It is safe to run twice.
func (r *Registry) handleReceipt(ctx context.Context, m bus.Message) error {
	from, _, err := topology.ParseReportSubject(m.Subject)
	if err != nil {
		return err
	}
	report := &reportv1.Report{}
	if err := bus.Unmarshal(m, report); err != nil {
		return err
	}
	receipt := report.GetReceipt()
	if report.ServerId != from.Server || receipt == nil {
		return fault.New(fault.Invalid, "the report on %s is of server %q and holds %s", m.Subject, report.ServerId, bodyOf(report))
	}
	if receipt.Agent != "" {
		return nil
	}
	if err := r.catchUp(ctx); err != nil { // its server heard of its end from the ledger: this view must have, too
		return err
	}
	said := uninstalled(receipt)
	return r.write(ctx, func() ([]ledger.Draft, error) {
		s, _ := r.view.Server(from.Server)
		if s.GetLife() != serverv1.Life_LIFE_DEAD || s.Cell != from.Cell {
			r.Log.Warn().Str(logs.Server, from.Server).Msg("a server that is not dead says that it removes itself; not believed")
			return nil, nil
		}
		if s.UninstalledAt != nil {
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.reported(report, ledger.Server, s.Id, said))}, nil
	})
}

func uninstalled(receipt *reportv1.ReceiptReport) *serverv1.Uninstalled {
	u := &serverv1.Uninstalled{}
	for _, p := range receipt.Removed {
		if p.LeftBecause == "" {
			u.Removed++
		} else {
			u.Left++
		}
	}
	u.LeftOwn = leftOwn(receipt.Removed)
	return u
}

// leftOwn counts the paths that were left and that nobody else is known to have put there.
func leftOwn(paths []*reportv1.Removed) (n uint32) {
	for _, p := range paths {
		if p.LeftBecause != "" && !p.Foreign {
			n++
		}
	}
	return n
}
