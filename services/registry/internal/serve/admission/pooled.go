package admission

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

const (
	// joinsAtOnce is how many servers one step records that join with one token. Each has two facts.
	joinsAtOnce = 100
	// joinWithin bounds such a step.
	joinWithin = 20 * time.Second
)

// pools enrols servers with pooled tokens. Every use changes the token's key, which is the guard of the next, so the
// requests that wait for one token are recorded together, in one step.
type pools struct {
	*Desk
	mu      sync.Mutex
	waiting map[string][]*joining // by token; a token with an entry is being worked on
}

// joining is one request to enrol with a pooled token.
type joining struct {
	request enrol.Request
	id      string // of the server
	done    chan struct{}
	expires *timestamppb.Timestamp
	owner   serverv1.Ownership
	fresh   bool
	err     error
}

// enrol admits a server with a pooled token. It is safe to run twice: the same key gets the same answer and
// counts once.
func (p *pools) enrol(
	ctx context.Context, from topology.ServerAddress, q *registryv1.EnrolRequest,
) (r *registryv1.EnrolResponse, admitted bool, err error) {
	if q.SealKey == "" {
		return nil, false, request.Invalid(code.Malformed, "a request to enrol with a pooled token needs a seal key")
	}
	j := &joining{
		request: enrol.Request{EnrolRequest: q, Cell: from.Cell, From: bus.AddressOf(ctx)},
		id:      enrol.ServerOf(from.Server, q.PublicKey), done: make(chan struct{}),
	}
	p.queue(from.Server, j)
	select {
	case <-j.done:
	case <-ctx.Done():
		return nil, false, fault.New(fault.Unavailable, "enrol: %w", ctx.Err())
	}
	if j.err != nil {
		p.refusals.Warn(p.log, from.Server).Err(j.err).Str("token", from.Server).
			Stringer("address", j.request.From).Msg("enrolment refused")
		return nil, false, j.err
	}
	if j.fresh {
		p.log.Info().Str(logs.Server, j.id).Str("token", from.Server).Msg("server enrolled")
	}
	r, err = p.answered(j)
	return r, j.fresh, err
}

// answered returns the answer to a server that was recorded, which only that server can read.
func (p *pools) answered(j *joining) (*registryv1.EnrolResponse, error) {
	g := &grant{server: j.id, cell: j.request.Cell, publicKey: j.request.PublicKey, ownership: j.owner}
	if j.expires != nil {
		g.expires = j.expires.AsTime()
	}
	sealed, by, err := p.sealed(g, j.request.SealKey)
	return request.Answer(&registryv1.EnrolResponse{Sealed: sealed, SealedBy: by}, err)
}

// queue has a request decided with the others that wait for its token.
func (p *pools) queue(token string, j *joining) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[string][]*joining{}
	}
	_, working := p.waiting[token]
	p.waiting[token] = append(p.waiting[token], j)
	if !working {
		go p.work(token)
	}
}

// work decides the requests for a token until none waits.
func (p *pools) work(token string) {
	for {
		p.mu.Lock()
		all := p.waiting[token]
		n := min(len(all), joinsAtOnce)
		p.waiting[token] = all[n:]
		if n == 0 {
			delete(p.waiting, token)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		p.record(token, all[:n])
		for _, j := range all[:n] {
			close(j.done)
		}
	}
}

// record decides requests and records those that are admitted, in one step.
func (p *pools) record(token string, all []*joining) {
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	if err := p.records.Decider.CatchUp(ctx); err != nil { // another registry may have made the token a moment ago
		for _, j := range all {
			j.err = err
		}
		return
	}
	expires := p.nextExpiry()
	cause := ledger.CausedByRequest(p.records.NewID())
	err := p.records.Change(ctx, func() ([]ledger.Draft, error) {
		known, _ := p.records.View.Token(token)
		t := proto.CloneOf(known)
		used := &tokenv1.Used{}
		var drafts []ledger.Draft
		names := map[string]bool{}
		for _, j := range all {
			if p.decide(t, j, expires); j.err != nil || !j.fresh || names[j.id] {
				continue // refused, recorded before, or it asked twice
			}
			names[j.id] = true
			t.Used++
			used.Uses = append(used.Uses, &tokenv1.Use{ServerId: j.id, Address: addressOf(j.request)})
			drafts = append(drafts, p.facts(t, j, names, cause)...)
		}
		if len(used.Uses) == 0 {
			return nil, nil
		}
		use := p.records.Guard(p.records.Own(ledger.Token, token, used, cause))
		return append([]ledger.Draft{use}, drafts...), nil
	})
	for _, j := range all {
		if err != nil && j.err == nil {
			j.err = err
		}
	}
}

// decide decides one request. It must run inside Read.
func (p *pools) decide(t *tokenv1.Token, j *joining, expires *timestamppb.Timestamp) {
	s, _ := p.records.View.Server(j.id)
	refusal, record := enrol.Pooled(t, s, j.request, p.records.Now())
	if other := p.records.View.ServerWithKey(j.request.PublicKey); refusal == nil && other != "" && other != j.id {
		refusal = enrol.OthersKey()
	}
	if j.err, j.fresh = nil, false; refusal != nil {
		refusal.Component = ledger.Registry
		j.err = fault.Refuse(fault.Denied, refusal)
		return
	}
	// Before anything is recorded: a key that cannot be signed must not use up the token.
	_, j.err = p.Signer.Server(j.request.PublicKey, j.id, j.request.Cell, expires.AsTime())
	j.owner, j.expires, j.fresh = t.Ownership, s.GetCredentialsExpireAt(), record
	if record {
		j.expires = expires
	}
}

// facts drafts that a server was invited and enrolled. names holds what the step uses already. It must run inside
// Read.
func (p *pools) facts(t *tokenv1.Token, j *joining, names map[string]bool, cause string) []ledger.Draft {
	name := enrol.NameOf(t.NameFrom, j.request.Sysinfo.GetHostname(), j.id, func(name string) bool {
		return names["name "+name] || name == everyServer || p.records.View.NameTaken(name, "")
	})
	names["name "+name] = true
	invited := &serverv1.Invited{
		Name: name, Cell: t.Cell, Labels: t.Labels, Environment: t.Environment, Ownership: t.Ownership, Token: t.Name,
	}
	enrolled := &serverv1.Enrolled{
		PublicKey: j.request.PublicKey, Sysinfo: j.request.Sysinfo, ExpiresAt: j.expires,
	}
	return []ledger.Draft{
		p.records.Guard(p.records.Own(ledger.Server, j.id, invited, cause)),
		ledger.Free(p.records.Own(ledger.Server, j.id, enrolled, cause)),
	}
}

func addressOf(q enrol.Request) string {
	if !q.From.IsValid() {
		return ""
	}
	return q.From.String()
}
