package executor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
// be repeated: with the same key the registry gives the same answer. A token that is
// refused leaves no key behind. A root that belongs to another server is refused with a
// Conflict. It gives the server's id.
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
	fresh := notThere(root.Key())
	if err := os.MkdirAll(filepath.Dir(root.Home()), 0o755); err != nil {
		return err
	}
	key, err := identity.OpenKey(root)
	if err != nil {
		return err
	}
	err = ask(ctx, i, root, token, key)
	// A key that was refused was never admitted: an answer that was lost gives no refusal.
	if fresh && fault.Is(err, fault.Denied) {
		_ = identity.Remove(root)
		_ = os.Remove(root.Home()) // only when it is empty
	}
	return err
}

// ask presents the token and the key to the registry, and keeps what it answers.
func ask(ctx context.Context, i Invitation, root layout.Root, token trust.Token, key identity.Key) error {
	is := identity.Identity{ServerID: token.ServerID, Cell: token.Cell, URL: token.URL, PublicKey: key.Public}
	if i.URL != "" {
		is.URL = i.URL
	}
	conn, err := bus.Dial(bus.Options{
		URL: is.URL, InProcess: i.InProcess, Name: token.ServerID, API: topology.NodesAPI, Log: i.Log,
		Credentials: func() (string, []byte, error) { return token.JWT, []byte(token.Seed), nil },
	})
	if err != nil {
		return notLetIn(err, token, is.URL, time.Now())
	}
	defer conn.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return notLetIn(err, token, is.URL, time.Now())
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

// notLetIn says why the bus did not let a token in; any other error stays as it is.
func notLetIn(err error, token trust.Token, url string, at time.Time) error {
	if !fault.Is(err, fault.Denied) {
		return err
	}
	r := &apiv1.Refusal{
		Component: "bus", Code: "LOGIN_REFUSED",
		Message: "the bus at " + url + " does not take the token; it may be another Garrison's",
		Try:     "a new token: garrison server enroll NAME",
	}
	if until := token.Expires(); !until.IsZero() && until.Before(at) {
		r.Code, r.Message = "EXPIRED_TOKEN", "the token expired at "+until.Format(time.RFC3339)
		r.Try = "garrison server forget " + token.ServerID + ", then a new token: garrison server enroll NAME"
	}
	return fault.Refuse(fault.Denied, r)
}

func notThere(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
