package admission

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/lobby"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Lobby takes requests of machines without a token. Who waits is in the memory of each replica, which all hear
// every request; what an operator decided is in the ledger, so any replica answers a machine.
type Lobby struct {
	*Desk
	open bool
	mu   sync.Mutex
	book *lobby.Book
}

// NewLobby returns the lobby; unless it is open, no machine without a token is heard.
func NewLobby(a *Desk, open bool) *Lobby {
	return &Lobby{Desk: a, open: open, book: lobby.NewBook()}
}

// Waits returns how many machines wait.
func (l *Lobby) Waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Len()
}

// Knock answers a machine: with its credentials once it is accepted, and until then when to ask again. It is safe to
// run twice: the credentials of a key are the same server's.
func (l *Lobby) Knock(
	ctx context.Context, subject string, q *registryv1.KnockRequest,
) (*registryv1.KnockResponse, error) {
	k, err := readKnock(subject, q)
	if err != nil {
		return nil, fault.Refusef(fault.Invalid, code.Invalid, "%v", err)
	}
	if l.Signer == nil {
		return nil, fault.New(fault.Unavailable, "this registry has no signing keys")
	}
	g, refusal, at := (*grant)(nil), error(nil), l.records.Now()
	l.records.Follower.Read(func() {
		s, _ := l.records.View.Server(lobby.ServerOf(k.PublicKey))
		rejection, _ := l.records.View.Rejection(k.PublicKey)
		why, admitted := lobby.Decide(s, rejection, k.PublicKey, at)
		if why != nil {
			why.Component = ledger.Registry
			refusal = fault.Refuse(fault.Denied, why)
		}
		if admitted {
			g = grantOf(s)
		}
	})
	switch {
	case refusal != nil:
		l.forget(k.PublicKey)
		return nil, refusal
	case g != nil:
		l.forget(k.PublicKey)
		sealed, by, err := l.sealed(g, k.SealKey)
		return request.Answer(&registryv1.KnockResponse{Sealed: sealed, SealedBy: by}, err)
	}
	w := lobby.Waiting{PublicKey: k.PublicKey, Address: bus.AddressOf(ctx), Sysinfo: k.Sysinfo}
	return &registryv1.KnockResponse{AskAgainMs: uint32(l.note(w, at).Milliseconds())}, nil
}

// note remembers a machine, and returns when it is to ask again.
func (l *Lobby) note(w lobby.Waiting, at time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book.Note(w, at) {
		l.refusals.Warn(l.log, topology.UserLobby).Str("host", w.Sysinfo.GetHostname()).
			Stringer("address", w.Address).Msg("a machine waits in the lobby")
	}
	return l.book.AskAgain()
}

// forget drops a machine about which something was decided.
func (l *Lobby) forget(publicKey string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Drop(publicKey)
}

// readKnock reads a request, and checks that the key of its subject signed it.
func readKnock(subject string, q *registryv1.KnockRequest) (*registryv1.Knock, error) {
	key, err := topology.ParseKnockSubject(subject)
	if err != nil {
		return nil, err
	}
	if err := trust.CheckKnock(key, q.Knock, q.Signature); err != nil {
		return nil, err
	}
	k := &registryv1.Knock{}
	if err := strict.Unmarshal(q.Knock, k); err != nil {
		return nil, err
	}
	if k.PublicKey != key {
		return nil, fault.New(fault.Invalid, "the knock of key %.60q came on the subject of %s", k.PublicKey, key)
	}
	if p := k.Sysinfo.GetPlatform(); p.GetOs() == "" || p.GetArch() == "" {
		return nil, fault.New(fault.Invalid, "a knock needs a sysinfo with its platform")
	}
	if err := trust.CheckSealKey(k.SealKey); err != nil {
		return nil, err
	}
	return k, bounds.Knock(k)
}

// List lists who waits, without those about whom something was decided meanwhile.
func (l *Lobby) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListLobbyRequest,
) (*registryv1.ListLobbyResponse, error) {
	limit, err := request.PageLimit(q.Page)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListLobbyResponse{Open: l.open}
	err = l.records.Decider.Query(ctx, func() error {
		match, refusal := lobby.Matcher(l.records.View, q.Where)
		if refusal != nil {
			return fault.Refuse(fault.Invalid, refusal)
		}
		all, overflowed := l.undecided()
		part := page.Take(func(yield func(string, *registryv1.Waiting) bool) {
			for _, w := range all {
				if w.Fingerprint > q.Page.GetCursor() && match(w) && !yield(w.Fingerprint, waitingRow(w)) {
					return
				}
			}
		}, limit)
		resp.Waiting, resp.NextCursor, resp.Overflowed = part.Rows, part.Next, overflowed
		return nil
	})
	return request.Answer(resp, err)
}

// undecided returns who waits and whether machines were left out. It must run inside Read.
func (l *Lobby) undecided() (all []lobby.Waiting, overflowed bool) {
	at := l.records.Now()
	noted, overflowed := l.noted(at)
	for _, w := range noted {
		s, _ := l.records.View.Server(lobby.ServerOf(w.PublicKey))
		rejection, _ := l.records.View.Rejection(w.PublicKey)
		if refusal, admitted := lobby.Decide(s, rejection, w.PublicKey, at); refusal == nil && !admitted {
			all = append(all, w)
		}
	}
	return all, overflowed
}

func (l *Lobby) noted(at time.Time) (all []lobby.Waiting, overflowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.All(at)
}

func waitingRow(w lobby.Waiting) *registryv1.Waiting {
	row := &registryv1.Waiting{
		Fingerprint: w.Fingerprint, PublicKey: w.PublicKey, Sysinfo: proto.CloneOf(w.Sysinfo),
		FirstAt: timestamppb.New(w.First), LastAt: timestamppb.New(w.Last),
	}
	if w.Address.IsValid() {
		row.Address = w.Address.String()
	}
	return row
}

// Reject refuses keys for a day. It is safe to run twice.
func (l *Lobby) Reject(
	ctx context.Context, c bus.Caller, q *registryv1.RejectLobbyRequest,
) (*registryv1.RejectLobbyResponse, error) {
	if err := l.checkRequest(q.Fingerprints); err != nil {
		return nil, err
	}
	if err := request.CheckDescription(q.Reason); err != nil {
		return nil, err
	}
	until := timestamppb.New(l.records.Now().Add(lobby.RejectedFor).UTC())
	err := l.records.Change(ctx, func() ([]ledger.Draft, error) {
		var drafts []ledger.Draft
		all, _ := l.undecided()
		for _, reference := range q.Fingerprints {
			w, err := find(all, reference)
			if err != nil {
				return nil, err
			}
			body := &lobbyv1.Rejection{Reason: q.Reason, Until: until}
			drafts = append(drafts, l.records.ByCaller(c, ledger.Lobby, w.PublicKey, body))
		}
		return drafts, nil
	})
	if err == nil {
		l.log.Info().Int(logs.Count, len(q.Fingerprints)).Str(logs.Actor, c.Actor).Msg("keys rejected from the lobby")
	}
	return request.Answer(&registryv1.RejectLobbyResponse{Until: until}, err)
}

// decidedAtOnce is how many machines one request accepts or rejects: each has two facts, and all are one step.
const decidedAtOnce = 200

// checkRequest refuses a decision without or with too many machines, or one of them twice.
func (l *Lobby) checkRequest(fingerprints []string) error {
	if !l.open {
		return fault.Refusef(fault.Conflict, code.LobbyClosed, "this registry was started without a lobby").
			Try("garrisond --lobby")
	}
	if n := len(fingerprints); n < 1 || n > decidedAtOnce {
		return request.Invalid(code.TooMany, "%d machines are named; one request decides about 1 to %d", n,
			decidedAtOnce)
	}
	seen := map[string]bool{}
	for _, f := range fingerprints {
		if seen[f] {
			return request.Invalid(code.Malformed, "machine %.60q is named twice", f)
		}
		seen[f] = true
	}
	return nil
}

// find returns a machine by its fingerprint or its public key.
func find(all []lobby.Waiting, reference string) (lobby.Waiting, error) {
	for _, w := range all {
		if lobby.Same(w, reference) {
			return w, nil
		}
	}
	return lobby.Waiting{}, fault.Refusef(fault.NotFound, code.NotFound,
		"no machine in the lobby has the fingerprint %.60q (%d wait)", reference, len(all)).
		Try("garrison server list --lobby")
}

// joined returns the server that a machine became, by its fingerprint or its public key, or nil. It must run inside
// Read.
func (l *Lobby) joined(reference string) *serverv1.Server {
	for s := range l.records.View.AllServers() {
		w := lobby.Waiting{PublicKey: s.PublicKey, Fingerprint: s.LobbyFingerprint}
		if s.LobbyFingerprint != "" && server.Managed(s) && lobby.Same(w, reference) {
			return s
		}
	}
	return nil
}
