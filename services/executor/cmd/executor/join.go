package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/text"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/executor/internal/enrol"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// invitation is the token of a server, which several flags can set. Every user of the machine can read
// a command line while the process runs, so it never holds a token.
type invitation struct {
	given string // by which flag; empty without a token
	open  func() (io.ReadCloser, error)
}

// maxInvitation is how long a token may be.
const maxInvitation = 64 << 10

// tokenOn reports whether a command line holds a token itself, which every user of the machine could read there.
func tokenOn(args []string) bool {
	for n, arg := range args {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "token" || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !joined && n+1 < len(args) {
			value = args[n+1]
		}
		if value != "-" {
			return true
		}
	}
	return false
}

// invitationFlag is one of the flags.
type invitationFlag struct {
	*invitation
	name string
	open func(value string) (func() (io.ReadCloser, error), error)
}

// Set implements flag.Value.
func (f invitationFlag) Set(value string) error {
	if f.given != "" {
		return fmt.Errorf("more than one token: --%s is set already", f.given)
	}
	open, err := f.open(value)
	if err == nil {
		f.given, f.invitation.open = f.name, open
	}
	return err
}

// String implements flag.Value; a token is never shown.
func (invitationFlag) String() string { return "" }

// Given implements config.Alternative.
func (f invitationFlag) Given() bool { return f.given != "" }

// fromFile opens a file.
func fromFile(path string) (func() (io.ReadCloser, error), error) {
	_, err := config.File(path)
	return func() (io.ReadCloser, error) { return regular.Open(path) }, err
}

// fromWordOrInput takes the token itself, or - for the standard input.
func fromWordOrInput(word string) (func() (io.ReadCloser, error), error) {
	if word == "-" {
		in := os.Stdin
		return func() (io.ReadCloser, error) { return in, nil }, nil
	}
	return fromWord(word)
}

// fromWord takes the token itself. A running executor may start again as another program, and a pipe
// can be read only once.
func fromWord(word string) (func() (io.ReadCloser, error), error) {
	if word == "" || word == "-" {
		return nil, errors.New("want the token itself; --token-file FILE keeps it out of the process list")
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(word)), nil }, nil
}

// token reads the token, one line. It returns at the end of ctx, also while nothing arrives.
func (i *invitation) token(ctx context.Context) (string, error) {
	if i.given == "" {
		return "", nil
	}
	return readWithin(ctx, func() (string, error) {
		in, err := i.open()
		if err != nil {
			return "", err
		}
		line, err := firstLine(io.LimitReader(in, maxInvitation))
		if err = errors.Join(err, in.Close()); err == nil {
			_, err = trust.ParseToken(line)
		}
		return line, err
	})
}

func firstLine(from io.Reader) (string, error) {
	in, err := text.NewReader(from)
	if err != nil {
		return "", err
	}
	line, err := in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// lobbyFlags are those of a machine without a token.
func (f *flags) lobbyFlags() {
	f.BoolVar(&f.lobby, "lobby", false, "ask to join without a token, and wait until an operator accepts the "+
		"fingerprint that this machine prints; needs --bus")
	config.Checked(f.FlagSet, &f.busCA, "bus-ca", "", "with --lobby: the `FILE` with the CA of the bus; default: the "+
		"CAs of the operating system", config.File)
}

// checkLobby refuses flags that do not go together.
func (f *flags) checkLobby() error {
	switch {
	case f.lobby && f.invitation.given != "":
		fmt.Fprintf(f.Output(), "%s: --lobby is for a machine without a token; --%s is set\n", f.Name(),
			f.invitation.given)
		return config.ErrUsage
	case f.lobby && f.url == "":
		return config.Missing(f.FlagSet, "bus")
	case f.busCA != "" && !f.lobby:
		return config.Missing(f.FlagSet, "lobby")
	}
	return nil
}

// knock asks to join until an operator decides.
func (f *flags) knock(ctx context.Context, out io.Writer, log zerolog.Logger) error {
	i := enrol.Invitation{Root: f.root, URL: f.url, AllowPlain: f.allowPlain, ImageKeys: f.imageKeys, Log: log}
	if f.busCA != "" {
		i.CA = trust.ReadBundle(f.busCA)
	}
	manager := sdnotify.FromEnv(log)
	id, err := enrol.Lobby(ctx, i, func(fingerprint string) {
		manager.Waits("waits in the lobby; accept it with: garrison server accept " + fingerprint)
		fmt.Fprintf(stderr(), "this machine waits in the lobby; its fingerprint is %s\n"+
			"accept it with: garrison server accept %s\n", fingerprint, fingerprint)
	})
	if err == nil {
		fmt.Fprintf(out, "joined as server %s\n", id)
	}
	return err
}

// waiting returns the error of a status that is not there, with the fingerprint of a machine that has a key and did not
// join yet.
func (f *flags) waiting(err error) error {
	root, e := layout.At(f.root)
	if e != nil || !fault.Is(err, fault.NotFound) {
		return err
	}
	public, e := identity.PublicKey(root)
	if e != nil {
		return err
	}
	return fault.New(fault.NotFound, "%w; the fingerprint of its key is %s (garrison server list --lobby)", err,
		lobby.Fingerprint(public))
}
