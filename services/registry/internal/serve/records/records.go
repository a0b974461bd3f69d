// Package records is what every part of the registry works with: the view, and facts recorded on decisions about it.
package records

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/secret"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// Records is what every part of the registry works with: the view, and facts that are recorded on
// decisions about it. A method that "must run inside Read" reads the view and must be called
// inside follower.Read or inside a decision.
type Records struct {
	View     *view.View
	Follower *fold.Follower
	Decider  *decide.Decider
	Now      func() time.Time
	NewID    func() string
	Secrets  *secret.Key // nil without one
	Budget   uint64      // how many bytes of facts one server may cause in a day
	Limits   budget.Limits
	Signed   bool // servers should take only signed images
}

// Believed reports whether a server's beats and reports count: it is under management, neither quarantined nor revoked,
// and within its budget.
func (r *Records) Believed(s *serverv1.Server) bool {
	return server.Believed(s) && !intake.Over(s, r.Budget, r.Now())
}

// OverBudget returns why a user may cause no facts of a noun that take that many bytes, or nil. It must run inside
// Read.
func (r *Records) OverBudget(actor string, noun ledger.Noun, bytes uint64) *apiv1.Refusal {
	return r.View.Writers.Refusal(r.Limits, actor, noun, bytes, r.Now())
}

// Change takes a decision, records it, and waits until the view holds it.
func (r *Records) Change(ctx context.Context, decision decide.Decision) error {
	_, err := r.Decider.Do(ctx, decision)
	return err
}

// ByCaller drafts a fact that a caller requested, on condition that nothing else happened to its
// key. It must run inside Read.
func (r *Records) ByCaller(c bus.Caller, noun ledger.Noun, key string, body proto.Message) ledger.Draft {
	return r.Guard(r.Decider.Fact(decide.By(c), noun, key, body))
}

// Own returns a fact that the registry records on its own account.
func (r *Records) Own(noun ledger.Noun, key string, body proto.Message, cause string) ledger.Fact {
	return r.Decider.Fact(decide.Origin{Cause: cause}, noun, key, body)
}

// Guard drafts a fact on condition that nothing else happened to its key. It must run inside Read.
func (r *Records) Guard(f ledger.Fact) ledger.Draft {
	return ledger.OnKey(f, r.View.Sequence(f.Noun, f.Key))
}

// Find returns the server that a caller refers to. It must run inside Read.
func (r *Records) Find(reference string) (*serverv1.Server, error) {
	if reference == "" {
		return nil, request.Invalid(code.EmptySelector, "no server is named")
	}
	s, refusal := selector.Find(r.View, reference)
	if refusal == nil {
		return s, nil
	}
	if refusal.Code == code.Ambiguous {
		return nil, fault.Refuse(fault.Conflict, refusal)
	}
	return nil, request.NotFound(refusal)
}

// CheckEnvironment refuses an unknown environment; empty means none. It must run inside Read.
func (r *Records) CheckEnvironment(name string) error {
	if name == "" || r.View.EnvironmentExists(name) {
		return nil
	}
	return request.NotFound(selector.UnknownEnvironment(r.View, name))
}

// atOnce bounds how many appends of one pass wait for the writer.
const atOnce = 256

// InParallel calls f for 0 to n-1, up to atOnce at a time, and waits for all.
func InParallel(n int, f func(int)) {
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

// List returns one part of the rows behind the cursor of a page. Rows is called inside Read, with the key before the
// first row.
func List[T proto.Message](
	ctx context.Context, r *Records, p *apiv1.Page, rows func(after string) (iter.Seq2[string, T], error),
) (part page.Part[T], err error) {
	limit, err := request.PageLimit(p)
	if err != nil {
		return part, err
	}
	err = r.Decider.Query(ctx, func() error {
		all, err := rows(p.GetCursor())
		if err == nil {
			part = page.Take(all, limit)
		}
		return err
	})
	return part, err
}

// Everyone is the group of all servers.
const Everyone = ""

// Servers returns the ids of the servers of an environment, or of Everyone. It must not run inside Read.
func (r *Records) Servers(environment string) (ids []string) {
	r.Follower.Read(func() {
		for s := range r.View.ServersWhere(environment, nil) {
			ids = append(ids, s.Id)
		}
	})
	return ids
}

// Sleep waits, and reports false when ctx is done first.
func Sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// SealSecrets seals values of metadata. It writes nothing, also not to the log.
func (r *Records) SealSecrets(
	_ context.Context, _ bus.Caller, q *registryv1.SealSecretsRequest,
) (*registryv1.SealSecretsResponse, error) {
	if r.Secrets == nil {
		return nil, fault.Refusef(fault.Unavailable, code.NoSecretKey, "this registry has no key of secrets")
	}
	if err := metadata.Check(q.GetValues()); err != nil {
		return nil, err
	}
	for name, value := range q.GetValues() {
		if metadata.IsNested(value) {
			return nil, request.Invalid(code.BadMetadata, "the secret %q must be text, not JSON", name)
		}
	}
	out := &registryv1.SealSecretsResponse{Sealed: map[string]string{}}
	for name, value := range q.GetValues() {
		out.Sealed[name] = r.Secrets.Seal(name, value)
	}
	return out, nil
}

// SealedWrong returns why an intent is refused whatever the fleet is: it sets a value that has the form of a sealed one
// and does not open.
func (r *Records) SealedWrong(i *intentv1.Intent) *apiv1.Refusal {
	why := cmp.Or(fault.RefusalOf(metadata.CheckSealed(r.Secrets, i.GetConfigure().GetSet())),
		r.ownWrong(i.GetInstall()))
	for _, step := range i.GetRollout().GetSteps() {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, step.GetConfigure().GetSet())),
			r.ownWrong(step.GetInstall()))
	}
	for _, s := range i.GetRollout().GetThen() {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, s.GetDefault().GetMetadata())))
	}
	return why
}

// ownWrong returns why the own values of an install are refused.
func (r *Records) ownWrong(q *intentv1.Install) (why *apiv1.Refusal) {
	for _, server := range slices.Sorted(maps.Keys(q.GetOwn())) {
		why = cmp.Or(why, fault.RefusalOf(metadata.CheckSealed(r.Secrets, q.GetOwn()[server].GetValues())))
	}
	return why
}
