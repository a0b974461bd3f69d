package enrol

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

const (
	// knockWithin bounds one request without a token, the connect included.
	knockWithin = 20 * time.Second
	// knockLater is the shortest pause after a request that was not answered, and knockLatest the longest: it doubles.
	knockLater  = 2 * time.Second
	knockLatest = time.Minute
)

// Lobby asks to join without a token until an operator decides, and returns the server's id. The machine makes a key;
// shown is called with the fingerprint by which the operator knows it. A connection lasts only for one request. A
// machine that joined before does nothing.
func Lobby(ctx context.Context, i Invitation, shown func(fingerprint string)) (serverID string, err error) {
	root, err := layout.New(i.Root)
	if err != nil {
		return "", err
	}
	if gone, ok := status.WasDecommissioned(root); ok {
		return gone, nil // Run reports that and ends
	}
	is, err := identity.Read(root)
	if err == nil {
		return is.ServerID, i.pinAgain(root)
	}
	if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if err := ofAnother(root, trust.Token{}); err != nil {
		return "", err
	}
	if err := strictdir.Make(string(root), 0o755); err != nil {
		return "", err
	}
	key, err := identity.JoinKey(root, false)
	if err != nil {
		return "", err
	}
	k := &knocker{Invitation: i, root: root, key: key, shown: shown}
	return k.untilDecided(ctx)
}

// knocker is a machine that asks to join without a token.
type knocker struct {
	Invitation
	root  layout.Root
	key   identity.Key
	shown func(fingerprint string)
}

// untilDecided asks again until there is an answer. What goes wrong on the way is tried again.
func (k *knocker) untilDecided(ctx context.Context) (serverID string, err error) {
	k.shown(lobby.Fingerprint(k.key.Public))
	for failed := time.Duration(0); ; {
		answer, later, err := k.once(ctx)
		switch {
		case err == nil && answer != nil:
			is := identity.Identity{
				ServerID: answer.GetServerId(), Cell: answer.GetCell(), URL: k.URL, PublicKey: k.key.Public,
			}
			return is.ServerID, k.keep(k.root, is, answer)
		case fault.RefusalOf(err).GetCode() == code.UsedKey: // a server had it, so it is never signed again
			if k.key, err = identity.NextKey(k.root); err != nil {
				return "", err
			}
			k.shown(lobby.Fingerprint(k.key.Public))
			later = knockLater
		case fault.RefusalOf(err) != nil && !fault.Is(err, fault.Unavailable):
			return "", err // an operator decided, or the registry does not understand it
		case err != nil:
			failed = min(max(2*failed, knockLater), knockLatest)
			later = failed
			k.Log.Warn().Err(err).Dur("again_in", later).Msg("the lobby was not reached; asking again")
		default:
			failed = 0
		}
		later += rand.N(later/4 + 1) // machines that start at once do not ask at once
		if err := wakeup.Pause(ctx, later); err != nil {
			return "", err
		}
	}
}

// once asks once. It returns the opened answer, or when to ask again.
func (k *knocker) once(ctx context.Context) (answer *registryv1.EnrolResponse, later time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, knockWithin)
	defer cancel()
	seal, err := trust.NewSealKey()
	if err != nil {
		return nil, 0, err
	}
	q, err := k.request(ctx, seal.Public())
	if err != nil {
		return nil, 0, err
	}
	conn, err := bus.Dial(bus.Options{
		URL: k.URL, InProcess: k.InProcess, Name: topology.UserLobby, API: topology.NodesAPI, Log: k.Log,
		TLS: bus.TLS{
			CA: k.CA, Source: "--bus-ca", Renew: "the file with the CA of the bus", AllowPlain: k.AllowPlain,
		},
	})
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return nil, 0, err
	}
	r, err := bus.Ask[*registryv1.KnockResponse](ctx, conn, topology.KnockSubject(k.key.Public), q)
	if err != nil {
		return nil, 0, err
	}
	if len(r.GetSealed()) == 0 {
		return nil, max(time.Duration(r.GetAskAgainMs())*time.Millisecond, time.Second), nil
	}
	answer, err = opened(seal, &registryv1.EnrolResponse{Sealed: r.Sealed, SealedBy: r.SealedBy})
	return answer, 0, err
}

// request returns what the machine says of itself, signed with its key.
func (k *knocker) request(ctx context.Context, sealKey string) (*registryv1.KnockRequest, error) {
	knock, err := proto.Marshal(&registryv1.Knock{
		PublicKey: k.key.Public, SealKey: sealKey, Sysinfo: sysinfo.Read(ctx),
	})
	if err != nil {
		return nil, err
	}
	signature, err := trust.SignKnock([]byte(k.key.Seed), knock)
	return &registryv1.KnockRequest{Knock: knock, Signature: signature}, err
}
