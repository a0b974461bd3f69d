package registry

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/secret"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// records is what every part of the registry works with: the view, and facts that are recorded on
// decisions about it. A method that "must run inside Read" reads the view and must be called
// inside follower.Read or inside a decision.
type records struct {
	view     *view.View
	follower *fold.Follower
	decider  *decide.Decider
	now      func() time.Time
	newID    func() string
	secrets  *secret.Key // nil without one
	budget   uint64      // how many bytes of facts one server may cause in a day
}

// believed reports whether a server's beats and reports count: it is under management, neither quarantined nor revoked,
// and within its budget.
func (r *records) believed(s *serverv1.Server) bool {
	return server.Believed(s) && !intake.Over(s, r.budget, r.now())
}

// change takes a decision, records it, and waits until the view holds it.
func (r *records) change(ctx context.Context, decision decide.Decision) error {
	_, err := r.decider.Do(ctx, decision)
	return err
}

// byCaller drafts a fact that a caller requested, on condition that nothing else happened to its
// key. It must run inside Read.
func (r *records) byCaller(c bus.Caller, noun ledger.Noun, key string, body proto.Message) ledger.Draft {
	return r.guard(r.decider.Fact(decide.By(c), noun, key, body))
}

// own returns a fact that the registry records on its own account.
func (r *records) own(noun ledger.Noun, key string, body proto.Message, cause string) ledger.Fact {
	return r.decider.Fact(decide.Origin{Cause: cause}, noun, key, body)
}

// guard drafts a fact on condition that nothing else happened to its key. It must run inside Read.
func (r *records) guard(f ledger.Fact) ledger.Draft {
	return ledger.OnKey(f, r.view.Sequence(f.Noun, f.Key))
}

// find returns the server that a caller refers to. It must run inside Read.
func (r *records) find(reference string) (*serverv1.Server, error) {
	if reference == "" {
		return nil, invalid(code.EmptySelector, "no server is named")
	}
	s, refusal := selector.Find(r.view, reference)
	if refusal == nil {
		return s, nil
	}
	if refusal.Code == code.AmbiguousServer {
		return nil, fault.Refuse(fault.Conflict, refusal)
	}
	return nil, notFound(refusal)
}

// checkEnvironment refuses an unknown environment; empty means none. It must run inside Read.
func (r *records) checkEnvironment(name string) error {
	if name == "" || r.view.EnvironmentExists(name) {
		return nil
	}
	return notFound(selector.UnknownEnvironment(r.view, name))
}

// atOnce bounds how many appends of one pass wait for the writer.
const atOnce = 256

// inParallel calls f for 0 to n-1, up to atOnce at a time, and waits for all.
func inParallel(n int, f func(int)) {
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			f(i)
		}()
	}
	for range atOnce {
		slots <- struct{}{}
	}
}
