package registry

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// lookEvery is how often it is asked whose last report is to be looked at again.
const lookEvery = time.Second

// lookWithin bounds one look.
const lookWithin = 30 * time.Second

// lookAgain looks at the last report of each server whose list changed, once it may change
// again. What was said in between was acknowledged, so that a server whose agents come and
// go holds no place among the reports of the others. Every replica looks after every
// change, and at each start after all the changes there ever were: so one that ends takes
// nothing with it. What is recorded by then no longer differs.
func (r *Registry) lookAgain(ctx context.Context) error {
	r.follower.Read(func() {
		for s := range r.view.AllServers() {
			if s.FoundAt != nil {
				r.remember(s.Id)
			}
		}
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		due := r.toLookAt()
		r.sideBySide(len(due), func(n int) { r.lookAt(ctx, due[n]) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// remember notes that the last report of a server is to be looked at again.
func (r *Registry) remember(id string) {
	r.againMu.Lock()
	defer r.againMu.Unlock()
	r.again[id] = struct{}{}
}

// rememberFound remembers the servers whose list just changed.
func (r *Registry) rememberFound(facts []ledger.Fact) {
	for _, f := range facts {
		if _, ok := f.Body.(*serverv1.AgentsFound); ok {
			r.remember(f.Key)
		}
	}
}

// toLookAt gives the servers whose time has come, and forgets them, and with them those
// that are no longer under management: so what is remembered stays bounded by the fleet.
func (r *Registry) toLookAt() (due []topology.ServerAddress) {
	now := r.Now()
	r.follower.Read(func() {
		r.againMu.Lock()
		defer r.againMu.Unlock()
		for id := range r.again {
			s, _ := r.view.Server(id)
			switch {
			case !server.Managed(s):
				delete(r.again, id)
			case server.MayFindAgain(s, now):
				delete(r.again, id)
				due = append(due, topology.ServerAddress{Cell: s.Cell, Server: id})
			}
		}
	})
	return due
}

// lookAt records what a server said last, when that differs. What cannot be done now is
// tried again; a report that is forged is for whoever consumes it to keep as such.
func (r *Registry) lookAt(ctx context.Context, at topology.ServerAddress) {
	once, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	last, err := r.Conn.DirectGet(once, topology.Reports, topology.ReportSubject(at, topology.ReportAgents))
	if err == nil {
		err = r.handleLatest(once, last, r.findAgents)
	}
	if err == nil || ctx.Err() != nil || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return
	}
	r.Log.Debug().Err(err).Str(logs.Server, at.Server).Msg("look at the last report put off")
	r.remember(at.Server)
}
