package executor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
)

// Invitation is what a server needs to join.
type Invitation struct {
	Root      string
	Token     string        // as the operator got it
	Server    string        // that the token must be for; empty means any
	URL       string        // where the bus is; empty means as the token says
	InProcess bus.InProcess // an embedded server instead of URL, or nil
	ImageKeys seal.Keys     // of which one must have signed an image; none means as the registry says
	Log       zerolog.Logger
}

// ErrDamaged says that the root has an identity that cannot be read. Run keeps its agents
// until it can.
var ErrDamaged = identity.ErrDamaged

// Join makes a key, asks the registry for credentials and keeps them under Root. It may
// be repeated: with the same key the registry gives the same answer. A token that is
// refused leaves neither key nor directory behind. A root that belongs to another server is refused with a
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
	if gone, ok := decommissioned(root); ok && gone == token.ServerID {
		return gone, nil // Run says so, and ends
	} else if ok {
		if err := clear(root); err != nil {
			return "", err
		}
	}
	is, err := identity.Read(root)
	if err == nil && is.ServerID == token.ServerID { // it joined before
		return is.ServerID, i.pinAgain(root)
	}
	if err == nil {
		return "", otherServer(root, is.ServerID, token)
	}
	if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if i.Server != "" && i.Server != token.ServerID {
		return "", otherServer(root, i.Server, token)
	}
	if err := ofAnother(root, token); err != nil {
		return "", err
	}
	return token.ServerID, enrol(ctx, i, root, token)
}

// pinAgain keeps keys of images that somebody named for a server that joined before. Where
// there is a file of keys it counts, and what it lacks is said: it is its administrator's.
func (i Invitation) pinAgain(root layout.Root) error {
	if err := identity.PinImageKeys(root, i.ImageKeys); err != nil {
		return err
	}
	have, err := identity.ImageKeys(root)
	if err != nil {
		return nil // no image is taken, and each says why
	}
	for _, key := range i.ImageKeys {
		if !slices.Contains(have, key) {
			i.Log.Warn().Str("key", key).Str(logs.Path, root.ImageKeys()).Msg("key of images is not in the file, which counts")
		}
	}
	return nil
}

// clear finishes the uninstall of a server that was here before.
func clear(root layout.Root) error {
	if server, err := uninstall.Marked(root); server == "" || err != nil {
		return nil // only its status is there, and is written over
	}
	_, err := uninstall.Finish(root, uninstall.Options{})
	return err
}

// Ran reports whether an executor ran in a root, so that agents may be there.
func Ran(root string) bool {
	r, err := layout.New(root)
	return err == nil && !notThere(r.Journal())
}

// ofAnother refuses a join into a root without an identity whose journal is another server's: its agents are that one's.
func ofAnother(root layout.Root, token trust.Token) error {
	if notThere(root.Journal()) {
		return nil
	}
	was := ""
	err := journal.Look(root.Journal(), func(tx *journal.Tx) error { was = tx.Note(noteServer); return nil })
	if err != nil || was == "" || was == token.ServerID {
		return nil // who has the journal open noted whose it is, and one that cannot be read refuses the start
	}
	return otherServer(root, was, token)
}

func otherServer(root layout.Root, is string, token trust.Token) error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: "OTHER_SERVER", Component: "executor",
		Message: string(root) + " belongs to server " + is + "; the token is for " + token.ServerID,
		Try:     "executor join --root ANOTHER-DIR, or decommission the server first",
	})
}

// enrol makes nothing on the disk before the bus has let the token in.
func enrol(ctx context.Context, i Invitation, root layout.Root, token trust.Token) error {
	is := identity.Identity{ServerID: token.ServerID, Cell: token.Cell, URL: cmp.Or(i.URL, token.URL)}
	conn, err := i.connect(ctx, token, is.URL)
	if err != nil {
		return notLetIn(err, token, is.URL, time.Now())
	}
	defer conn.Close()
	fresh, made := notThere(root.Key()), missing(filepath.Dir(root.Home()))
	if err := os.MkdirAll(filepath.Dir(root.Home()), 0o755); err != nil {
		return err
	}
	key, err := identity.OpenKey(root)
	if err != nil {
		return err
	}
	is.PublicKey = key.Public
	answer, err := ask(ctx, conn, is, token.Secret)
	if err == nil {
		err = i.keep(root, is, answer)
	}
	// A key that was refused was never admitted: an answer that was lost gives no refusal.
	if fresh && fault.Is(err, fault.Denied) {
		_ = identity.Remove(root)
		for _, dir := range append([]string{root.Home()}, made...) {
			_ = os.Remove(dir) // only when it is empty
		}
	}
	return err
}

// missing gives the directories that must be made for one to be there, that one first.
func missing(dir string) (out []string) {
	for ; notThere(dir); dir = filepath.Dir(dir) {
		out = append(out, dir)
	}
	return out
}

// connect connects as the token's guest.
func (i Invitation) connect(ctx context.Context, token trust.Token, url string) (*bus.Conn, error) {
	conn, err := bus.Dial(bus.Options{
		URL: url, InProcess: i.InProcess, Name: token.ServerID, API: topology.NodesAPI, Log: i.Log,
		Credentials: func() (string, []byte, error) { return token.JWT, []byte(token.Seed), nil },
	})
	if err != nil {
		return nil, err
	}
	if err := conn.WaitConnected(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ask presents the token's secret and the key to the registry.
func ask(ctx context.Context, conn *bus.Conn, is identity.Identity, secret string) (*registryv1.EnrolResponse, error) {
	return bus.Ask[*registryv1.EnrolResponse](ctx, conn, topology.EnrolSubject(is.Address()), &registryv1.EnrolRequest{
		ServerId: is.ServerID, Secret: secret, PublicKey: is.PublicKey, Sysinfo: sysinfo.Read(ctx),
	})
}

// keep keeps what the registry answered. The keys of images come first: nothing runs
// before there is an identity.
func (i Invitation) keep(root layout.Root, is identity.Identity, answer *registryv1.EnrolResponse) error {
	keys := i.ImageKeys
	if len(keys) == 0 {
		keys = answer.GetImageKeys()
	}
	if err := identity.PinImageKeys(root, keys); err != nil {
		return err
	}
	is.JWT = answer.GetUserJwt()
	is.Ownership, is.TombstoneKey = identity.Told(answer.GetOwnership()), answer.GetTombstoneKey()
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
