package instances

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/external"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// reportsAnHour is how many reports of one reporter are taken in an hour: 100,000 instances in reports of 500, every
// ten minutes, and half as many again.
const reportsAnHour = 1800

// Externals takes reports about external instances and lists them. When a report last confirmed an instance is only in
// memory: it would be a fact for each instance and report.
type Externals struct {
	records *records.Records
	reports *pace.Pace // calls of a reporter
	log     zerolog.Logger

	mu        sync.Mutex
	started   time.Time            // when this process began to listen
	confirmed map[string]time.Time // by key
}

// NewExternals returns what records and lists external instances.
func NewExternals(r *records.Records, log zerolog.Logger) *Externals {
	return &Externals{
		records: r, log: log, started: r.Now(), confirmed: map[string]time.Time{},
		reports: pace.New(reportsAnHour, time.Hour),
	}
}

// Report records what a report changes, and remembers what it confirms. It is safe to run twice: what is recorded no
// longer differs.
func (e *Externals) Report(
	ctx context.Context, c bus.Caller, q *registryv1.ReportExternalRequest,
) (*registryv1.ReportExternalResponse, error) {
	if len(q.Found) > external.MaxFound {
		return nil, request.Invalid(code.Invalid,
			"a report of %d instances; %d are the most, send parts with a range",
			len(q.Found), external.MaxFound)
	}
	if _, ok := e.reports.Take(c.Actor); !ok {
		return nil, fault.Refuse(fault.Unavailable, busy(c.Actor))
	}
	resp := &registryv1.ReportExternalResponse{}
	for first := true; ; first = false {
		d, rest, err := e.record(ctx, c, q)
		if err != nil {
			return nil, err
		}
		if first { // later ones confirm what the first recorded
			resp.Confirmed = uint32(len(d.Confirmed))
		}
		if bus.IsDryRun(ctx) {
			return resp, nil // nothing would be recorded
		}
		e.confirm(q.Agent, d)
		for _, x := range d.Changes {
			if isGone(x) {
				resp.Gone++
			} else {
				resp.Changed++
			}
		}
		if rest == 0 {
			resp.LeftOut = d.LeftOut
			e.prune()
			e.logChanges(c, q.Agent, resp)
			return resp, nil
		}
	}
}

// record decides on a report and records its first facts, as many as one batch holds. It returns how many are left.
func (e *Externals) record(
	ctx context.Context, c bus.Caller, q *registryv1.ReportExternalRequest,
) (d external.Decision, rest int, err error) {
	err = e.records.Change(ctx, func() ([]ledger.Draft, error) {
		var refusal *apiv1.Refusal
		if d, refusal = external.Report(e.records.View, c.Actor, q, e.records.Now()); refusal != nil {
			return nil, refuseReport(refusal)
		}
		n := min(len(d.Changes), topology.MaxBatch)
		rest = len(d.Changes) - n
		var drafts []ledger.Draft
		var bytes uint64
		for i, x := range d.Changes[:n] {
			bytes += budget.Size(x.Body)
			if why := e.records.OverBudget(c.Actor, ledger.External, bytes); why != nil {
				d.LeaveOut(d.Changes[i:], why)
				n, rest = i, 0
				break
			}
			drafts = append(drafts, e.records.ByCaller(c, ledger.External, ledger.Key(q.Agent, x.Name), x.Body))
		}
		d.Changes = d.Changes[:n]
		return drafts, nil
	})
	return d, rest, err
}

// refuseReport refuses a report as a whole.
func refuseReport(r *apiv1.Refusal) error {
	if r.Code == code.NotReporter {
		return fault.Refuse(fault.Denied, r)
	}
	return request.NotFound(r)
}

func busy(actor string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code:         code.Busy,
		Message:      fmt.Sprintf("reporter %s sent more than %d reports within an hour", actor, reportsAnHour),
		RetryAfterMs: uint32(time.Minute.Milliseconds()),
	}
}

// logChanges logs a report that changed something.
func (e *Externals) logChanges(c bus.Caller, agent string, r *registryv1.ReportExternalResponse) {
	if r.Changed+r.Gone+uint32(len(r.LeftOut)) == 0 {
		return
	}
	e.log.Info().Str(logs.Actor, c.Actor).Str(logs.Agent, agent).Uint32("changed", r.Changed).
		Uint32("gone", r.Gone).Int("left_out", len(r.LeftOut)).Msg("external instances reported")
}

// confirm remembers that a report listed instances.
func (e *Externals) confirm(agent string, d external.Decision) {
	now := e.records.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range d.Confirmed {
		e.confirmed[ledger.Key(agent, name)] = now
	}
	for _, x := range d.Changes {
		if key := ledger.Key(agent, x.Name); isGone(x) {
			delete(e.confirmed, key)
		} else {
			e.confirmed[key] = now
		}
	}
}

// prune forgets instances that went without a report of their own, when they are many.
func (e *Externals) prune() {
	e.records.Follower.Read(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.confirmed) < 2*e.records.View.ExternalsOf("")+1000 {
			return
		}
		for key := range e.confirmed {
			if _, ok := e.records.View.ExternalAt(key); !ok {
				delete(e.confirmed, key)
			}
		}
	})
}

func isGone(x external.Change) bool {
	_, ok := x.Body.(*externalv1.Gone)
	return ok
}

// row returns a copy of an instance with what the list shows beside it. It must run inside Read.
func (e *Externals) row(key string, x *externalv1.External) *registryv1.ExternalRow {
	a, _ := e.records.View.Agent(x.Agent)
	s, _ := e.records.View.Server(x.GetFound().GetServer())
	row := &registryv1.ExternalRow{
		External: proto.CloneOf(x), ServerName: s.GetName(), Wanted: external.Wanted(a, x, s.GetEnvironment()),
	}
	at := e.confirmedAt(key)
	if at.IsZero() {
		at = e.started
	} else {
		row.External.ConfirmedAt = timestamppb.New(at)
	}
	row.Stale = e.records.Now().Sub(at) > external.Within(a)
	return row
}
