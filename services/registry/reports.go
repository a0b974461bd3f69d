package registry

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// unknownFor is how many deliveries a report of an unknown server is put back for: its
// enrolment may have been recorded by another replica a moment ago.
const unknownFor = 4

// handleAgents records where what was found differs from what is known. It is safe to
// run twice: what is recorded no longer differs.
func (r *Registry) handleAgents(ctx context.Context, m bus.Message) error {
	if err := r.handleLatest(ctx, m, r.observe); err != nil {
		return err
	}
	return r.handleLatest(ctx, m, r.findAgents)
}

// handleSysinfo records a sysinfo that differs, or that somebody asked for. It is safe
// to run twice: the fact's id is the same for the same report.
func (r *Registry) handleSysinfo(ctx context.Context, m bus.Message) error {
	return r.handleLatest(ctx, m, r.seeSysinfo)
}

// handleLatest handles a report. When that recorded something, and a later report is on
// the subject by then, it handles that too: another registry may have handled it before,
// and found nothing new in it. So the last word is the server's, whoever is slow.
func (r *Registry) handleLatest(ctx context.Context, m bus.Message, handle func(context.Context, bus.Message) (recorded bool, err error)) error {
	for {
		recorded, err := handle(ctx, m)
		if err != nil || !recorded {
			return err
		}
		latest, later, err := r.later(ctx, m)
		if err != nil || !later {
			return err
		}
		latest.Delivered = m.Delivered
		m = latest
	}
}

// later gives the last report on a report's subject, if that is a later one.
func (r *Registry) later(ctx context.Context, m bus.Message) (bus.Message, bool, error) {
	latest, err := r.Conn.DirectGet(ctx, topology.Reports, m.Subject)
	if fault.Is(err, fault.NotFound) {
		return m, false, nil // too old to be kept
	}
	return latest, err == nil && latest.Sequence > m.Sequence, err
}

func (r *Registry) observe(ctx context.Context, m bus.Message) (recorded bool, err error) {
	report, err := r.receive(m, topology.ReportAgents)
	if report == nil || err != nil {
		return false, err
	}
	if err := r.seenBy(ctx, report); err != nil {
		return false, err
	}
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		recorded = false
		var drafts []ledger.Draft
		for _, d := range instance.Differences(r.view.InstancesOf(report.ServerId), report.GetAgents()) {
			key := ledger.Key(d.Instance.ServerId, d.Instance.Agent)
			drafts = append(drafts, r.guarded(r.reported(report, ledger.Instance, key, d.Observed)))
		}
		recorded = len(drafts) > 0
		return drafts[:min(len(drafts), topology.MaxBatch)], nil
	})
	return recorded, err
}

func (r *Registry) seeSysinfo(ctx context.Context, m bus.Message) (recorded bool, err error) {
	report, err := r.receive(m, topology.ReportSysinfo)
	if report == nil || err != nil {
		return false, err
	}
	said := report.GetSysinfo()
	err = r.write(ctx, func() ([]ledger.Draft, error) {
		s, ok := r.view.Server(report.ServerId)
		recorded = ok && server.Managed(s) && (said.TaskId != "" || !proto.Equal(s.Sysinfo, said.Sysinfo))
		if !recorded {
			return nil, nil
		}
		seen := &serverv1.SysinfoSeen{Sysinfo: said.Sysinfo, BootId: report.BootId, RequestId: said.TaskId}
		return []ledger.Draft{r.guarded(r.reported(report, ledger.Server, s.Id, seen))}, nil
	})
	return recorded, err
}

// seenBy waits until the view holds what the server's document was made from, as far as the
// ledger has it: the server says a list once, so none may be compared without its instances.
func (r *Registry) seenBy(ctx context.Context, report *reportv1.Report) error {
	if r.follower.Position() >= report.GetAgents().GetDocumentGeneration() {
		return nil
	}
	return r.catchUp(ctx)
}

// reported makes a fact that a report led to, within Read. Its id is computed from the report, its journal and the last
// fact on its key: a repeat of the same decision is the same fact. A report of a journal that counts anew is another, and
// so is one whose word counts again after another one overruled it.
func (r *Registry) reported(report *reportv1.Report, noun ledger.Noun, key string, body proto.Message) ledger.Fact {
	f := r.noticed(noun, key, body, ledger.CausedByReport(report.ServerId, report.Sequence))
	last := strconv.FormatUint(r.view.Sequence(noun, key), 10)
	at := report.GetAt().AsTime().Format(time.RFC3339Nano)
	f.ID = ident.From("report", f.Cause, report.JournalId, at, report.BootId, string(noun), key, last)
	return f
}

// receive reads and checks a report. No report and no error means that there is nothing
// to do: it is a repeat, or its server is no longer under management. An error of kind
// Invalid means that it is forged or cannot be read.
func (r *Registry) receive(m bus.Message, kind string) (*reportv1.Report, error) {
	from, _, err := topology.ParseReportSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	report := &reportv1.Report{}
	if err := bus.Unmarshal(m, report); err != nil {
		return nil, err
	}
	if report.ServerId != from.Server {
		return nil, fault.New(fault.Invalid, "report of server %s came on the subject of %s", report.ServerId, from.Server)
	}
	if body := bodyOf(report); body != kind {
		return nil, fault.New(fault.Invalid, "report of kind %s holds %s", kind, body)
	}
	report, err = r.admitted(report, from, m.Delivered)
	if report == nil || err != nil || !r.newest(report, kind, m.Sequence) {
		return nil, err
	}
	return report, nil
}

// admitted checks that the server is under management where it says it is.
func (r *Registry) admitted(report *reportv1.Report, from topology.ServerAddress, delivered uint64) (*reportv1.Report, error) {
	var known, managed bool
	var cell string
	r.follower.Read(func() {
		var s *serverv1.Server
		s, known = r.view.Server(from.Server)
		managed, cell = server.Managed(s), s.GetCell()
	})
	switch {
	case known && cell != from.Cell:
		return nil, fault.New(fault.Invalid, "server %s is of cell %s, not of %s", from.Server, cell, from.Cell)
	case !known && delivered < unknownFor:
		return nil, fault.New(fault.Unavailable, "server %s is not known yet", from.Server)
	case !managed:
		r.Log.Debug().Str(logs.Server, from.Server).Msg("report of a server that is not under management")
		return nil, nil
	}
	return report, nil
}

func bodyOf(report *reportv1.Report) string {
	switch report.Body.(type) {
	case *reportv1.Report_Agents:
		return topology.ReportAgents
	case *reportv1.Report_Sysinfo:
		return topology.ReportSysinfo
	case *reportv1.Report_Task:
		return topology.ReportTask
	case *reportv1.Report_Receipt:
		return topology.ReportReceipt
	}
	return "nothing"
}

// series is the reports of one kind from one server.
type series struct{ server, kind string }

// place is which report of its series one is: by the number in the server's journal, and
// by its place in the stream.
type place struct {
	journal        string
	number, stored uint64
}

// newest says whether no later report of the kind was seen from the server. A report
// that was put back must not overrule the ones behind it. It is the older one by both
// numbers: by one alone, the server's disk or the stream was set back, and what is said
// since then counts. Equal numbers are a retry of the same report. Numbers of different
// journals have no order, so there the place in the stream decides.
func (r *Registry) newest(report *reportv1.Report, kind string, stored uint64) bool {
	key := series{report.ServerId, kind}
	r.reportsMu.Lock()
	defer r.reportsMu.Unlock()
	last := r.reports[key]
	if stored < last.stored && (report.JournalId != last.journal || report.Sequence < last.number) {
		return false
	}
	r.reports[key] = place{report.JournalId, report.Sequence, stored}
	return true
}

// forgetReports forgets the reports of servers that are no longer under management. It must run inside Read.
func (r *Registry) forgetReports() {
	r.reportsMu.Lock()
	defer r.reportsMu.Unlock()
	for key := range r.reports {
		if s, _ := r.view.Server(key.server); !server.Managed(s) {
			delete(r.reports, key)
		}
	}
}
