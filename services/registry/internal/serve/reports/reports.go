// Package reports records what differs in the reports of servers: agents, sysinfo and receipts.
package reports

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// unknownFor is how many deliveries a report of an unknown server is put back for: its enrolment
// may have been recorded by another replica a moment ago.
const unknownFor = 4

// Handler records what servers report. A server sends each list once, and replicas share the
// reports, so two rules keep the last report effective: newest ignores a report that a later one
// overtook, and handleLatest goes on to a later one that another replica may have handled too early.
type Handler struct {
	records  *records.Records
	conn     *bus.Conn
	rechecks *Rechecks
	log      zerolog.Logger
	refused  *logs.Pacer // reports that do not count

	mu   sync.Mutex
	last map[series]position // the last report that was handled
}

// New returns what records the differences that reports show.
func New(r *records.Records, conn *bus.Conn, later *Rechecks, log zerolog.Logger) *Handler {
	return &Handler{
		records: r, conn: conn, rechecks: later, log: log, refused: logs.NewPacer(), last: map[series]position{},
	}
}

// handler records what a checked report changes, and reports whether it recorded anything.
type handler func(ctx context.Context, m bus.Message, report *reportv1.Report) (recorded bool, err error)

// HandleAgents records the differences between a report and the instances, and the unmanaged
// agents. It is safe to run twice: what is recorded no longer differs.
func (r *Handler) HandleAgents(ctx context.Context, m bus.Message) error {
	return r.handleLatest(ctx, m, topology.ReportAgents, r.recordAgents)
}

// HandleSysinfo records a sysinfo. It is safe to run twice: what is recorded no longer differs, and a
// refresh is answered once.
func (r *Handler) HandleSysinfo(ctx context.Context, m bus.Message) error {
	return r.handleLatest(ctx, m, topology.ReportSysinfo, r.recordSysinfo)
}

// handleLatest handles a report. When that recorded something and a later report is on the subject
// by then, it handles the later one too: another replica may have handled it before, when it did not
// differ yet. So the server's last report decides, however slow a replica is.
func (r *Handler) handleLatest(ctx context.Context, m bus.Message, kind string, handle handler) error {
	for {
		report, err := r.receive(m, kind)
		if report == nil || err != nil {
			return err
		}
		recorded, err := handle(ctx, m, report)
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

// later returns the last report on a report's subject, if it is a later one.
func (r *Handler) later(ctx context.Context, m bus.Message) (bus.Message, bool, error) {
	latest, err := r.conn.DirectGet(ctx, topology.Reports, m.Subject)
	if fault.Is(err, fault.NotFound) {
		return m, false, nil // too old to be kept
	}
	return latest, err == nil && latest.Sequence > m.Sequence, err
}

// recordSysinfo records a sysinfo that differs, or that answers the last refresh of its server. One that
// differs soon after another one waits for a recheck.
func (r *Handler) recordSysinfo(ctx context.Context, m bus.Message, report *reportv1.Report) (
	recorded bool, err error,
) {
	body := report.GetSysinfo()
	if body.TaskId != "" && body.TaskId != r.lastRefresh(report.ServerId) && m.Delivered <= 1 {
		return false, fault.New(fault.Unavailable, "refresh %s is not known yet", body.TaskId) // or it is made up
	}
	err = r.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, _ := r.records.View.Server(report.ServerId)
		answers := intake.Answers(s, body.TaskId)
		recorded = r.records.Believed(s) && (answers || !proto.Equal(s.Sysinfo, body.Sysinfo))
		if recorded && !answers && !intake.SysinfoMayChange(s, r.records.Now()) {
			recorded = false
			r.rechecks.addSysinfo(s) // and the report is acknowledged
		}
		if !recorded {
			return nil, nil
		}
		seen := &serverv1.SysinfoSeen{Sysinfo: body.Sysinfo, BootId: report.BootId}
		if answers {
			seen.RequestId = body.TaskId
		}
		return []ledger.Draft{r.draft(report, ledger.Server, s.Id, seen)}, nil
	})
	return recorded, err
}

// lastRefresh returns the last refresh that was assigned to a server, a task.
func (r *Handler) lastRefresh(id string) (task string) {
	r.records.Follower.Read(func() {
		s, _ := r.records.View.Server(id)
		task = s.GetIntake().GetRefreshTaskId()
	})
	return task
}

// catchUp waits until the view holds what the server's document was made from, as far as the ledger
// has it. The server sends a list once, so none may be compared without its instances.
func (r *Handler) catchUp(ctx context.Context, report *reportv1.Report) error {
	if r.records.Follower.Position() >= report.GetAgents().GetDocumentGeneration() {
		return nil
	}
	return r.records.Decider.CatchUp(ctx)
}

// draft drafts a fact that follows from a report. Its id is computed from the report, the report's
// journal and the last fact on the key, so that a repeat of the same decision is the same fact. A
// report of a journal that starts again has another id, and so has one that counts again after
// another report overruled it. It must run inside Read.
func (r *Handler) draft(report *reportv1.Report, noun ledger.Noun, key string, body proto.Message) ledger.Draft {
	f := r.records.Own(noun, key, body, ledger.CausedByReport(report.ServerId, report.Sequence))
	last := strconv.FormatUint(r.records.View.Sequence(noun, key), 10)
	at := report.GetAt().AsTime().Format(time.RFC3339Nano)
	f.ID = ident.From("report", f.Cause, report.JournalId, at, report.BootId, string(noun), key, last)
	return r.records.Guard(f)
}

// receive reads and checks a report. No report and no error means that nothing is to be done: the
// report was overtaken, or its server is no longer under management or not believed. An error of kind Invalid means
// that the report is forged or cannot be read.
func (r *Handler) receive(m bus.Message, kind string) (*reportv1.Report, error) {
	from, _, err := topology.ParseReportSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	report := &reportv1.Report{}
	if err := readReport(m, report); err != nil {
		return nil, err
	}
	if report.ServerId != from.Server {
		return nil, fault.New(fault.Invalid, "report of server %s came on the subject of %s", report.ServerId,
			from.Server)
	}
	if body := kindOf(report); body != kind {
		return nil, fault.New(fault.Invalid, "report of kind %s holds %s", kind, body)
	}
	believed, err := r.believed(from, m.Delivered)
	if err != nil || !believed || !r.newest(report, kind, m.Sequence) {
		return nil, err
	}
	return report, nil
}

// readReport decodes a report and cuts it to what may be decided on.
func readReport(m bus.Message, into *reportv1.Report) error {
	if err := bus.Unmarshal(m, into); err != nil {
		return err
	}
	return bounds.Report(into)
}

// believed reports whether the reports of a server count, and refuses a report from another cell.
func (r *Handler) believed(from topology.ServerAddress, delivered uint64) (bool, error) {
	var known, believed bool
	var cell string
	r.records.Follower.Read(func() {
		var s *serverv1.Server
		s, known = r.records.View.Server(from.Server)
		believed, cell = r.records.Believed(s), s.GetCell()
	})
	switch {
	case known && cell != from.Cell:
		return false, fault.New(fault.Invalid, "server %s is of cell %s, not of %s", from.Server, cell, from.Cell)
	case !known && delivered < unknownFor:
		return false, fault.New(fault.Unavailable, "server %s is not known yet", from.Server)
	case !believed:
		r.refused.Warn(r.log, from.Server).Str(logs.Server, from.Server).
			Msg("ignored a report of a server that is quarantined, revoked, or not under management")
	}
	return believed, nil
}

// kindOf returns the kind of a report's body, as it stands in subjects.
func kindOf(report *reportv1.Report) string {
	switch report.Body.(type) {
	case *reportv1.Report_Agents:
		return topology.ReportAgents
	case *reportv1.Report_Sysinfo:
		return topology.ReportSysinfo
	case *reportv1.Report_Task:
		return topology.ReportTask
	case *reportv1.Report_Receipt:
		return topology.ReportReceipt
	case *reportv1.Report_Candidates:
		return topology.ReportCandidates
	}
	return "nothing"
}

// series is the reports of one kind from one server.
type series struct{ server, kind string }

// position is a report's position in its series: its number in the server's journal, and its
// sequence in the stream.
type position struct {
	journal        string
	number, stored uint64
}

// Forget forgets which reports were handled, as a replica that handled none.
func (r *Handler) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.last)
}

// newest reports whether no later report of the kind was handled. A report that was put back must
// not overrule the ones after it. It is older when both numbers are lower: when only one is, the
// server's disk or the stream was set back, and the report counts. Equal numbers are a retry of the
// same report. Numbers of different journals have no order, so then the sequence decides.
func (r *Handler) newest(report *reportv1.Report, kind string, stored uint64) bool {
	key := series{report.ServerId, kind}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[key]
	if stored < last.stored && (report.JournalId != last.journal || report.Sequence < last.number) {
		return false
	}
	r.last[key] = position{report.JournalId, report.Sequence, stored}
	return true
}

// Prune drops the positions of servers that are no longer under management. It must run inside Read.
func (r *Handler) Prune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.last {
		if s, _ := r.records.View.Server(key.server); !server.Managed(s) {
			delete(r.last, key)
		}
	}
}
