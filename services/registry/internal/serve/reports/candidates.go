package reports

import (
	"context"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Candidates answers requests about the candidates for adoption. They are no part of the view: the list is the
// server's last report, and stays in the stream of reports. The ledger has its length and digest, in the task of
// the scan.
type Candidates struct {
	records *records.Records
	conn    *bus.Conn
}

// NewCandidates returns what lists the software that servers found and that is not managed.
func NewCandidates(r *records.Records, conn *bus.Conn) *Candidates {
	return &Candidates{records: r, conn: conn}
}

// List returns what servers found that is not managed, a page at a time.
func (a *Candidates) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListCandidatesRequest,
) (*registryv1.ListCandidatesResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	if _, err := path.Match(q.Name, ""); err != nil {
		return nil, request.Invalid(code.Invalid, "the name %q is not a pattern", q.Name)
	}
	var server topology.ServerAddress
	var name string
	err = a.records.Decider.Query(ctx, func() error {
		s, err := a.records.Find(q.Server)
		server, name = topology.ServerAddress{Cell: s.GetCell(), Server: s.GetId()}, s.GetName()
		return err
	})
	if err != nil {
		return nil, err
	}
	report, err := a.last(ctx, server)
	if fault.Is(err, fault.NotFound) {
		return nil, request.NotFound(&apiv1.Refusal{
			Code: code.NotScanned, Message: "server " + name + " reported no candidates",
			Try: "garrison server refresh " + name + " --scan",
		})
	}
	if err != nil {
		return nil, err
	}
	body := report.GetCandidates()
	part := page.Take(matching(body.GetCandidates(), q), limit)
	resp := &registryv1.ListCandidatesResponse{
		Candidates: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
		ScannedAt: report.At, ServerId: server.Server,
	}
	if q.Page.GetCursor() == "" {
		resp.Detections = body.GetDetections()
	}
	return resp, nil
}

// last returns the last report of a server's candidates, cut to its bounds.
func (a *Candidates) last(ctx context.Context, server topology.ServerAddress) (*reportv1.Report, error) {
	m, err := a.conn.DirectGet(ctx, topology.Reports, topology.ReportSubject(server, topology.ReportCandidates))
	if err != nil {
		return nil, err
	}
	report := &reportv1.Report{}
	if err := readReport(m, report); err != nil {
		return nil, err
	}
	if report.ServerId != server.Server || report.GetCandidates() == nil {
		return nil, fault.New(fault.Invalid, "the last report on %s is not one of candidates of this server", m.Subject)
	}
	slices.SortFunc(report.GetCandidates().Candidates, func(a, b *serverv1.Candidate) int {
		return strings.Compare(a.Id, b.Id) // a cursor relies on it, and a server is not believed
	})
	return report, nil
}

// matching returns the candidates behind the cursor that a request asks for.
func matching(all []*serverv1.Candidate, q *registryv1.ListCandidatesRequest) iter.Seq2[string, *serverv1.Candidate] {
	return func(yield func(string, *serverv1.Candidate) bool) {
		for _, c := range all {
			if c.Id > q.Page.GetCursor() && wanted(c, q) && !yield(c.Id, c) {
				return
			}
		}
	}
}

func wanted(c *serverv1.Candidate, q *registryv1.ListCandidatesRequest) bool {
	if q.Detector != "" && c.Detector != q.Detector || q.Listening && len(c.Sockets) == 0 {
		return false
	}
	is, _ := path.Match(q.Name, c.Name) // checked before
	return q.Name == "" || is
}
