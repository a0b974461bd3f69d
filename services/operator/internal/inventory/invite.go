package inventory

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// LongestToken is the longest validity of a token that the registry accepts.
const LongestToken = 30 * 24 * time.Hour

// Invitations says where the tokens of new servers go.
type Invitations struct {
	Dir   string // a file NAME.token of mode 0600 for each server; empty means that no server is invited
	Valid time.Duration
}

// Add adds the flags.
func (i *Invitations) Add(f *pflag.FlagSet, name string) {
	cli.TextVar(f, &i.Dir, name, cli.NotEmpty("directory"), "invite servers that are not known, and write a join "+
		"token for each to `DIR`/NAME.token, mode 0600")
	cli.TimeVar(f, &i.Valid, "valid", 24*time.Hour, LongestToken,
		"validity of the tokens, a `DURATION` such as 12h or 20d; at most 30d")
}

// prepare creates the directory, so that no token is lost for the want of it.
func (i *Invitations) prepare() error {
	if i.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(i.Dir, 0o700); err != nil {
		return err
	}
	probe, err := os.CreateTemp(i.Dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("cannot write tokens: %w", err)
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// invite invites a server and writes its token. A server's name has no slash, so that its file is in the directory.
func (i *Invitations) invite(ctx context.Context, env *cli.Env, c declare.Change) error {
	s := c.Next.(*serverv1.Server)
	target, err := cli.ReserveTarget(filepath.Join(i.Dir, c.Name+".token"))
	if err != nil {
		return err
	}
	defer target.Discard()
	r, err := cli.Call[*registryv1.InviteServerResponse](ctx, env, &registryv1.InviteServerRequest{
		Name: c.Name, Cell: s.GetCell(), Labels: s.GetLabels(), Environment: s.GetEnvironment(),
		Ownership: s.GetOwnership(), ServerId: s.GetId(), ValidFor: durationpb.New(i.Valid), Owner: c.Owner,
	})
	if err != nil {
		return err
	}
	if err := target.Keep(r.GetToken()); err != nil {
		return fmt.Errorf("server %s is invited, and its token is lost: %w. Try: garrison server forget %s", c.Name,
			err, r.GetServerId())
	}
	return nil
}

// maxToken bounds the file of a token, in bytes.
const maxToken = 64 << 10

// TokenIn returns the join token that a file holds. It refuses a file that holds none: no command overwrites it.
func TokenIn(file string) (trust.Token, error) {
	var token trust.Token
	f, err := regular.Open(file)
	if err == nil {
		defer func() { _ = f.Close() }()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxToken)); err == nil {
			token, err = trust.ParseToken(string(data))
		}
	}
	if err != nil {
		return token, fault.Refusef(fault.Conflict, code.Exists, "%s exists and is not a join token", file).
			Try("another --token-file")
	}
	return token, nil
}
