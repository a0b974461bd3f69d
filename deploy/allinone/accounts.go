package allinone

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// syncAccounts is how often a member of a cluster compares its accounts with those of the others.
const syncAccounts = time.Minute

// accounts returns the accounts of the bus, as the authority has them: with the keys that the service
// access last had refused. While the bus runs, that service changes them. They are files because the bus
// takes changes for those only; it writes none that is there already. It also returns the login of clients
// without credentials, which is empty when they are refused.
func (g *Garrison) accounts() (_ server.AccountResolver, lobby string, err error) {
	dir := filepath.Join(g.config.Data, "accounts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("load accounts: %w", err)
	}
	resolver, err := server.NewDirAccResolver(dir, 0, syncAccounts, server.NoDelete)
	if err != nil {
		return nil, "", fmt.Errorf("load accounts: %w", err)
	}
	for public, token := range g.authority.Accounts {
		if err := resolver.Store(public, token); err != nil {
			return nil, "", fmt.Errorf("load account: %w", err)
		}
	}
	if g.config.Lobby {
		lobby, err = g.authority.LobbyLogin()
	}
	return resolver, lobby, err
}

// trustDir returns the directory of the keys.
func (g *Garrison) trustDir() string { return filepath.Join(g.config.Data, "trust") }
