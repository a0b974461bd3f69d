package executor

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// Invitation is what a server needs to join.
type Invitation struct {
	Root      string
	Token     string        // as the operator got it
	URL       string        // where the bus is; empty means as the token says
	InProcess bus.InProcess // an embedded server instead of URL, or nil
	Log       zerolog.Logger
}

// Join makes a key, asks the registry for credentials and keeps them under Root. It may
// be repeated: with the same key the registry gives the same answer. A root that belongs
// to another server is refused with a Conflict. It gives the server's id.
func Join(ctx context.Context, i Invitation) (serverID string, err error) {
	root, err := layout.New(i.Root)
	if err != nil {
		return "", err
	}
	token, err := trust.ParseToken(i.Token)
	if err != nil {
		return "", err
	}
	is, err := identity.Read(root)
	if err == nil && is.ServerID == token.ServerID {
		return is.ServerID, nil // it joined before
	}
	if err == nil {
		return "", fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "OTHER_SERVER", Component: "executor",
			Message: string(root) + " belongs to server " + is.ServerID + "; the token is for " + token.ServerID,
			Try:     "executor join --root ANOTHER-DIR, or decommission the server first",
		})
	}
	if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if gone, ok := decommissioned(root); ok && gone == token.ServerID {
		return gone, nil // Run says so, and ends
	}
	return token.ServerID, enrol(ctx, i, root, token)
}

func enrol(ctx context.Context, i Invitation, root layout.Root, token trust.Token) error {
	if err := os.MkdirAll(filepath.Dir(root.Home()), 0o755); err != nil {
		return err
	}
	key, err := identity.OpenKey(root)
	if err != nil {
		return err
	}
	is := identity.Identity{ServerID: token.ServerID, Cell: token.Cell, URL: token.URL, PublicKey: key.Public}
	if i.URL != "" {
		is.URL = i.URL
	}
	conn, err := bus.Dial(bus.Options{
		URL: is.URL, InProcess: i.InProcess, Name: token.ServerID, API: topology.NodesAPI, Log: i.Log,
		Credentials: func() (string, []byte, error) { return token.JWT, []byte(token.Seed), nil },
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return err
	}
	answer, err := bus.Ask[*registryv1.EnrolResponse](ctx, conn, topology.EnrolSubject(is.Address()), &registryv1.EnrolRequest{
		ServerId: token.ServerID, Secret: token.Secret, PublicKey: key.Public, Sysinfo: sysinfo.Read(ctx),
	})
	if err != nil {
		return err
	}
	is.JWT = answer.GetUserJwt()
	return is.Write(root)
}
