// Package enrol joins a server with the token of its invitation.
package enrol

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// Invitation is what a server joins with.
type Invitation struct {
	Root      string
	Token     string        // as garrison server enroll wrote it
	Server    string        // that the token must be for; empty means any
	URL       string        // of the bus; empty means the one in the token
	InProcess bus.InProcess // an embedded server instead of URL, or nil
	// CA returns the CAs of the bus for a machine without a token, as PEM; nil means those of the operating system.
	CA func() ([]byte, error)
	// AllowPlain allows a bus on another host without TLS, now and later.
	AllowPlain bool
	ImageKeys  seal.Keys // one of them must have signed an image; empty means those that the registry sends
	// Sysinfo returns what the machine is; nil means that it is read.
	Sysinfo func(context.Context) *serverv1.Sysinfo
	Log     zerolog.Logger
}

// Join makes a key, requests credentials from the registry, keeps them under Root and returns the
// server's id. It may be repeated: the registry answers the same key in the same way. A server that
// joined before does nothing, unless the token is a later one; then it joins again, with another key.
// A refused token leaves neither key nor directory behind. A root of another server is refused with a
// Conflict.
func Join(ctx context.Context, i Invitation) (serverID string, err error) {
	root, err := layout.New(i.Root)
	if err != nil {
		return "", err
	}
	token, err := trust.ParseToken(i.Token)
	if err != nil {
		return "", err
	}
	// A pooled token lets in any machine: one that was decommissioned comes back with a token of its own only.
	if gone, ok := status.WasDecommissioned(root); ok && (gone == token.ServerID || token.Pool != "") {
		return gone, nil // Run reports that and ends
	} else if ok {
		if err := finishRemoval(root); err != nil {
			return "", err
		}
	}
	return join(ctx, i, root, token)
}

// join is Join for a root on which no removal is open.
func join(ctx context.Context, i Invitation, root layout.Root, token trust.Token) (serverID string, err error) {
	is, err := identity.Read(root)
	if err == nil && token.Pool != "" {
		return is.ServerID, i.pinAgain(root) // it joined before, with this token or another one
	}
	if err == nil && is.ServerID != token.ServerID {
		return "", otherServer(root, is.ServerID, token)
	}
	if err == nil && is.Supersedes(token) { // its credentials are void
		return enrol(ctx, i, root, token)
	}
	if err == nil { // it joined before
		return is.ServerID, i.pinAgain(root)
	}
	if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if i.Server != "" && i.Server != token.ServerID {
		return "", otherServer(root, i.Server, token) // a pooled token makes a new server, never an earlier one
	}
	if err := ofAnother(root, token); err != nil {
		return "", err
	}
	return enrol(ctx, i, root, token)
}

// pinAgain keeps the image keys of an invitation for a server that joined before. An existing file of
// keys stays as it is, as its administrator may own it; keys that it lacks are logged.
func (i Invitation) pinAgain(root layout.Root) error {
	if err := identity.PinImageKeys(root, i.ImageKeys); err != nil {
		return err
	}
	have, err := identity.ImageKeys(root)
	if err != nil {
		return nil // each image is refused with this reason
	}
	for _, key := range i.ImageKeys {
		if !slices.Contains(have, key) {
			i.Log.Warn().
				Str("key", key).
				Str(logs.Path, root.ImageKeys()).
				Msg("image key ignored; the existing file of image keys lacks it")
		}
	}
	return nil
}

// finishRemoval completes the removal of the server that used this root before.
func finishRemoval(root layout.Root) error {
	if server, err := removal.Marked(root); server == "" || err != nil {
		return nil // only its status exists, and is overwritten
	}
	_, err := removal.Finish(removal.Config{Root: root})
	return err
}

// Ran reports whether an executor ran in a root, so that it may have agents.
func Ran(root string) bool {
	r, err := layout.At(root)
	return err == nil && !layout.Missing(r.Journal())
}

// ofAnother refuses a join into a root without an identity whose journal is another server's, as its
// agents are.
func ofAnother(root layout.Root, token trust.Token) error {
	if layout.Missing(root.Journal()) {
		return nil
	}
	was := ""
	err := journal.Look(root.Journal(), func(tx *journal.Tx) error { was = tx.Note(journal.NoteServer); return nil })
	if err != nil || was == "" || was == token.ServerID {
		return nil // the executor that holds the journal noted its server; an unreadable journal fails the start
	}
	return otherServer(root, was, token)
}

func otherServer(root layout.Root, is string, token trust.Token) error {
	return fault.Refusef(
		fault.Conflict, code.OtherServer,
		"%s belongs to server %[2]s; the token is for %[3]s. Once that server is dead, two commands free it: "+
			"garrison server clean %[2]s --tombstone > FILE, and here: executor uninstall --tombstone FILE",
		root, is, cmp.Or(token.ServerID, "new servers"),
	).
		Try("executor join --root ANOTHER-DIR").
		From("executor")
}

// enrol writes nothing to the disk before the bus has accepted the token. It returns the server's id.
func enrol(ctx context.Context, i Invitation, root layout.Root, token trust.Token) (serverID string, err error) {
	is := identity.Identity{
		ServerID: token.ServerID, Cell: token.Cell, URL: cmp.Or(i.URL, token.URL), Token: identity.TokenSum(token),
	}
	conn, err := i.connect(ctx, token, is.URL)
	if err != nil {
		return "", explainLogin(err, token, is.URL, time.Now())
	}
	defer conn.Close()
	fresh, made := layout.Missing(root.Key()), missing(string(root))
	if err := strictdir.Make(string(root), 0o755); err != nil {
		return "", err
	}
	key, err := identity.JoinKey(root, !layout.Missing(root.Identity()))
	if err != nil {
		return "", err
	}
	is.PublicKey = key.Public
	answer, err := i.ask(ctx, conn, is, token)
	if fault.RefusalOf(err).GetCode() == code.UsedKey { // it was this server's before its identity was lost
		if key, err = identity.NextKey(root); err != nil {
			return "", err
		}
		is.PublicKey = key.Public
		answer, err = i.ask(ctx, conn, is, token)
	}
	if err == nil {
		is.ServerID = cmp.Or(is.ServerID, answer.GetServerId())
		err = i.keep(root, is, answer)
	}
	// A refused key was never admitted; a lost answer is no refusal.
	if fault.Is(err, fault.Denied) {
		_ = identity.DropNextKey(root)
	}
	if fresh && fault.Is(err, fault.Denied) {
		_ = identity.Remove(root)
		for _, dir := range append([]string{root.Home()}, made...) {
			_ = os.Remove(dir) // only when it is empty
		}
	}
	return is.ServerID, err
}

// missing returns the directories to make for dir, dir first.
func missing(dir string) (out []string) {
	for ; layout.Missing(dir); dir = filepath.Dir(dir) {
		out = append(out, dir)
	}
	return out
}

// connect connects with the token's credentials.
func (i Invitation) connect(ctx context.Context, token trust.Token, url string) (*bus.Conn, error) {
	conn, err := bus.Dial(bus.Options{
		URL: url, InProcess: i.InProcess, Name: token.Guest(), API: topology.NodesAPI, Log: i.Log,
		TLS: bus.TLS{
			Pins: token.Pins, Source: "the join token", Renew: "a new token: garrison server enroll NAME",
			AllowPlain: i.AllowPlain,
		},
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

// ask sends the token's secret and the key to the registry.
func (i Invitation) ask(
	ctx context.Context, conn *bus.Conn, is identity.Identity, token trust.Token,
) (*registryv1.EnrolResponse, error) {
	read := sysinfo.Read
	if i.Sysinfo != nil {
		read = i.Sysinfo
	}
	q := &registryv1.EnrolRequest{
		ServerId: token.Guest(), Secret: token.Secret, PublicKey: is.PublicKey, Sysinfo: read(ctx),
	}
	if token.Pool != "" {
		return askPooled(ctx, conn, is.Cell, q)
	}
	return bus.Ask[*registryv1.EnrolResponse](ctx, conn, topology.EnrolSubject(is.Address()), q)
}

// keep writes the registry's answer. The image keys come first: nothing runs without an identity.
func (i Invitation) keep(root layout.Root, is identity.Identity, answer *registryv1.EnrolResponse) error {
	keys := i.ImageKeys
	if len(keys) == 0 {
		keys = answer.GetImageKeys()
	}
	if err := identity.PinImageKeys(root, keys); err != nil {
		return err
	}
	is.JWT, is.BusCA, is.AllowPlain = answer.GetUserJwt(), answer.GetBusCa(), i.AllowPlain
	is.Ownership, is.TombstoneKey = identity.OwnershipWord(answer.GetOwnership()), answer.GetTombstoneKey()
	if err := is.Write(root); err != nil {
		return err
	}
	return identity.TakeNextKey(root, is.PublicKey)
}

// explainLogin returns why the bus rejected a token. It returns any other error as it is.
func explainLogin(err error, token trust.Token, url string, at time.Time) error {
	if !fault.Is(err, fault.Denied) || fault.RefusalOf(err) != nil {
		return err
	}
	if until := token.Expires(); !until.IsZero() && until.Before(at) {
		return fault.Refusef(fault.Denied, code.ExpiredToken,
			"the token expired at %s; it is %s by this machine's clock",
			until.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)).
			Try("garrison server enroll NAME").From("bus")
	}
	return fault.Refusef(fault.Denied, code.LoginRefused,
		"the bus at %s rejects the token: it was used up or revoked, has expired by the clock of the bus, or is of "+
			"another control plane", url).
		Try("garrison server show NAME; a new token: garrison server enroll NAME").From("bus")
}

const (
	// answerWithin is how long one request with a pooled token waits. The registry drops requests of an
	// address that sends too many, as a router does that many servers are behind.
	answerWithin = 5 * time.Second
	// askAgain is the longest pause before the next request.
	askAgain = 3 * time.Second
)

// askPooled asks with a pooled token, again while there is no answer. The answer is sealed: the holders of the token
// share its login, so that each of them could read it.
func askPooled(
	ctx context.Context, conn *bus.Conn, cell string, q *registryv1.EnrolRequest,
) (*registryv1.EnrolResponse, error) {
	key, err := trust.NewSealKey()
	if err != nil {
		return nil, err
	}
	q.SealKey = key.Public()
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: cell, Server: q.ServerId})
	for {
		within, cancel := context.WithTimeout(ctx, answerWithin)
		answer, err := bus.Ask[*registryv1.EnrolResponse](within, conn, subject, q)
		cancel()
		if err == nil {
			return opened(key, answer)
		}
		if !fault.Is(err, fault.Unavailable) {
			return nil, err
		}
		if wakeup.Pause(ctx, rand.N(askAgain)) != nil {
			return nil, err
		}
	}
}

// opened returns the answer in a sealed one.
func opened(key trust.SealKey, sealed *registryv1.EnrolResponse) (*registryv1.EnrolResponse, error) {
	data, err := key.Open(sealed.GetSealed(), sealed.GetSealedBy())
	if err != nil {
		return nil, err
	}
	answer := &registryv1.EnrolResponse{}
	if err := proto.Unmarshal(data, answer); err != nil {
		return nil, fault.New(fault.Internal, "read the sealed answer: %w", err)
	}
	return answer, nil
}
