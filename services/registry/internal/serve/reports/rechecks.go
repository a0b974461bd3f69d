package reports

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/inventory"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	// recheckEvery is how often due rechecks are looked for.
	recheckEvery = time.Second
	// recheckTimeout bounds one recheck.
	recheckTimeout = 30 * time.Second
	// latestRecheck is how far ahead a recheck is due at most; a later one comes from a clock that was set back.
	latestRecheck = 2 * budget.Every
)

// Rechecks are the last reports that are read again once what they say may be recorded. Reports that
// come too early are acknowledged, so that a server whose state keeps changing does not hold up the
// reports of others. Every replica rechecks after every change, and after its start once for each
// server that ever changed, so that no recheck is lost with a replica. What is recorded by then no
// longer differs.
type Rechecks struct {
	records *records.Records
	log     zerolog.Logger
	queue   *reconcile.Queue[series]
}

// NewRechecks returns an empty list of reports to look at again.
func NewRechecks(r *records.Records, log zerolog.Logger) *Rechecks {
	q := reconcile.NewQueue[series](r.Now, nil)
	q.Latest = latestRecheck
	return &Rechecks{records: r, log: log, queue: q}
}

// Run calls recheck for each report that is due until ctx is done. When recheck returns true, the
// report stays due.
func (r *Rechecks) Run(
	ctx context.Context, recheck func(ctx context.Context, at topology.ServerAddress, kind string) (again bool),
) error {
	r.records.Follower.Read(r.addAll)
	return reconcile.Loop[series]{
		Name: "rechecks", Queue: r.queue, Every: recheckEvery, Pause: recheckEvery, Log: r.log,
		Pass: func(ctx context.Context, due []series) error {
			records.InParallel(len(due), func(n int) {
				at, managed := r.addressOf(due[n].server)
				if managed && recheck(ctx, at, due[n].kind) {
					r.add(due[n].server, due[n].kind, r.records.Now().Add(recheckEvery))
				}
			})
			return nil
		},
	}.Run(ctx)
}

// addAll adds whatever may have waited when the registry was stopped. It must run inside Read.
func (r *Rechecks) addAll() {
	for s := range r.records.View.AllServers() {
		if s.FoundAt != nil {
			r.addList(s)
		}
		if s.Intake.GetSysinfoAt() != nil {
			r.addSysinfo(s)
		}
		for i := range r.records.View.InstancesOf(s.Id) {
			if intake.Held(i) {
				r.addObserved(i)
			}
		}
	}
}

// addList notes that the last list of unmanaged agents is to be rechecked, addSysinfo the last
// sysinfo, and addObserved what the last list shows of an instance.
func (r *Rechecks) addList(s *serverv1.Server) {
	r.add(s.Id, topology.ReportAgents, inventory.ListDue(s))
}

func (r *Rechecks) addSysinfo(s *serverv1.Server) {
	r.add(s.Id, topology.ReportSysinfo, intake.SysinfoDue(s))
}

func (r *Rechecks) addObserved(i *instancev1.Instance) {
	r.add(i.ServerId, topology.ReportAgents, intake.ObservedDue(i))
}

// add notes that a server's last report of a kind is to be rechecked, at the earliest of all times that were noted.
func (r *Rechecks) add(id, kind string, at time.Time) {
	r.queue.AddAt(at, series{id, kind})
}

// Waiting returns how many reports are to be rechecked.
func (r *Rechecks) Waiting() int { return r.queue.Len() }

// Includes reports whether a server's last report of a kind will be looked at again.
func (r *Rechecks) Includes(id, kind string) bool { return r.queue.Has(series{id, kind}) }

// NoteFacts adds what just changed, because a further change may be waiting at any replica. A server
// that was released is rechecked as a whole: what it reported before was not recorded.
func (r *Rechecks) NoteFacts(facts []ledger.Fact) {
	r.records.Follower.Read(func() {
		for _, f := range facts {
			r.noteFact(f)
		}
	})
}

func (r *Rechecks) noteFact(f ledger.Fact) {
	if _, ok := f.Body.(*instancev1.Observed); ok {
		if i, ok := r.records.View.InstanceAt(f.Key); ok && intake.Held(i) {
			r.addObserved(i)
		}
		return
	}
	s, ok := r.records.View.Server(f.Key)
	if !ok || f.Noun != ledger.Server {
		return
	}
	switch f.Body.(type) {
	case *serverv1.AgentsFound:
		r.addList(s)
	case *serverv1.SysinfoSeen:
		r.addSysinfo(s)
	case *serverv1.Released:
		r.addList(s)
		r.addSysinfo(s)
	}
}

// addressOf returns where a server's reports are, and whether it is under management.
func (r *Rechecks) addressOf(id string) (at topology.ServerAddress, managed bool) {
	r.records.Follower.Read(func() {
		s, _ := r.records.View.Server(id)
		at, managed = topology.ServerAddress{Cell: s.GetCell(), Server: id}, server.Managed(s)
	})
	return at, managed
}
