package admission

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/enrol"
	"github.com/garrison-fleet/garrison/services/registry/internal/lobby"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Accept makes servers of machines that wait, all or none. It is safe to run twice: a machine that was accepted is
// named as the server that it is.
func (l *Lobby) Accept(
	ctx context.Context, c bus.Caller, q *registryv1.AcceptLobbyRequest,
) (*registryv1.AcceptLobbyResponse, error) {
	if err := l.checkRequest(q.Fingerprints); err != nil {
		return nil, err
	}
	if q.Name != "" && len(q.Fingerprints) > 1 {
		return nil, request.Invalid(code.BadName, "one name for %d machines", len(q.Fingerprints))
	}
	shape, err := l.invitation(&registryv1.InviteServerRequest{
		Name: cmp.Or(q.Name, "machine"), Cell: q.Cell, Labels: q.Labels, Environment: q.Environment,
		Ownership: q.Ownership,
	})
	if err != nil {
		return nil, err
	}
	a := &acceptance{Lobby: l, caller: c, request: q, shape: shape, expires: l.nextExpiry()}
	if err := l.records.Change(ctx, a.decide); err != nil {
		return nil, err
	}
	l.log.Info().Int(logs.Count, len(a.accepted)).Str(logs.Actor, c.Actor).Msg("machines accepted from the lobby")
	return &registryv1.AcceptLobbyResponse{Accepted: a.accepted}, nil
}

// acceptance is one request to accept machines.
type acceptance struct {
	*Lobby
	caller  bus.Caller
	request *registryv1.AcceptLobbyRequest
	shape   *serverv1.Invited // what is the same for all
	expires *timestamppb.Timestamp

	accepted []*registryv1.Accepted
	names    map[string]bool // that this step uses
}

// decide drafts the facts of all machines. It must run inside Read.
func (a *acceptance) decide() (drafts []ledger.Draft, err error) {
	a.accepted, a.names = nil, map[string]bool{}
	if err := a.records.CheckEnvironment(a.shape.Environment); err != nil {
		return nil, err
	}
	all, _ := a.undecided()
	for _, reference := range a.request.Fingerprints {
		w, err := find(all, reference)
		if err != nil {
			s := a.joined(reference)
			if s == nil {
				return nil, err
			}
			a.accepted = append(a.accepted, &registryv1.Accepted{
				Fingerprint: s.LobbyFingerprint, ServerId: s.Id, Name: s.Name, Already: true,
			})
			continue
		}
		if a.records.View.ServerWithKey(w.PublicKey) != "" {
			return nil, fault.Refuse(fault.Conflict, enrol.OthersKey())
		}
		one, err := a.one(w)
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, one...)
	}
	return drafts, nil
}

// one drafts that a machine is a server from now on. It must run inside Read.
func (a *acceptance) one(w lobby.Waiting) ([]ledger.Draft, error) {
	id := lobby.ServerOf(w.PublicKey)
	// Before anything is recorded: a key that cannot be signed is no server's.
	if _, err := a.Signer.Server(w.PublicKey, id, a.shape.Cell, a.expires.AsTime()); err != nil {
		return nil, err
	}
	taken := func(name string) bool {
		return a.names[strings.ToLower(name)] || name == everyServer || a.records.View.NameTaken(name, "")
	}
	name := a.request.Name
	if name == "" {
		name = enrol.NameOf(a.request.NameFrom, w.Sysinfo.GetHostname(), id, taken)
	} else if taken(name) {
		return nil, request.NameTaken(cmp.Or(a.records.View.NameHolder(name, ""), name))
	}
	a.names[strings.ToLower(name)] = true
	a.accepted = append(a.accepted, &registryv1.Accepted{Fingerprint: w.Fingerprint, ServerId: id, Name: name})
	invited := &serverv1.Invited{
		Name: name, Cell: a.shape.Cell, Labels: a.shape.Labels, Environment: a.shape.Environment,
		Ownership: a.shape.Ownership, LobbyFingerprint: w.Fingerprint,
	}
	enrolled := &serverv1.Enrolled{PublicKey: w.PublicKey, Sysinfo: w.Sysinfo, ExpiresAt: a.expires}
	by := decide.By(a.caller)
	return []ledger.Draft{
		a.records.Guard(a.records.Decider.Fact(by, ledger.Server, id, invited)),
		ledger.Free(a.records.Decider.Fact(by, ledger.Server, id, enrolled)),
	}, nil
}
