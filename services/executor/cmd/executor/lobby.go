package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/enrol"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

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
		manager.Waits("waits in the lobby; accept it with: garrison lobby accept " + fingerprint)
		fmt.Fprintf(stderr(), "this machine waits in the lobby; its fingerprint is %s\n"+
			"accept it with: garrison lobby accept %s\n", fingerprint, fingerprint)
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
	return fault.New(fault.NotFound, "%w; the fingerprint of its key is %s (garrison lobby list)", err,
		lobby.Fingerprint(public))
}
