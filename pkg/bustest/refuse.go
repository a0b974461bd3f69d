package bustest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Start starts the bus again after Stop, with its data and at its address.
func (g *Guarded) Start(t testing.TB) {
	t.Helper()
	s := startServer(t, g.options)
	g.server, g.URL = s, s.ClientURL()
}

// Stop stops the bus.
func (g *Guarded) Stop() {
	g.server.Shutdown()
	g.server.WaitForShutdown()
}

// Revoke makes the bus refuse a server, by its public key, and end its connections.
func (g *Guarded) Revoke(t testing.TB, publicKey string) {
	t.Helper()
	g.changeAccount(t, topology.AccountNodes, func(c *jwt.AccountClaims) { c.Revoke(publicKey) })
}

// Restore takes back what Revoke and ExpireServers did.
func (g *Guarded) Restore(t testing.TB) {
	t.Helper()
	g.changeAccount(t, topology.AccountNodes, func(c *jwt.AccountClaims) { c.Revocations, c.Expires = nil, 0 })
}

// ExpireServers ends the time of the account of every server soon.
func (g *Guarded) ExpireServers(t testing.TB, at time.Time) {
	t.Helper()
	g.changeAccount(t, topology.AccountNodes, func(c *jwt.AccountClaims) { c.Expires = at.Unix() })
}

// ServerJWT signs the JWT of a server that holds from one time until another; zero means always.
func (g *Guarded) ServerJWT(t testing.TB, publicKey, id, cell string, from, until time.Time) string {
	t.Helper()
	signer, err := trust.OpenSigner(g.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Server(publicKey, id, cell, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	if !from.IsZero() {
		claims.NotBefore = from.Unix()
	}
	if !until.IsZero() {
		claims.Expires = until.Unix()
	}
	if token, err = claims.Encode(g.key(t, topology.AccountNodes+"-node")); err != nil {
		t.Fatal(err)
	}
	return token
}

// key reads a key of the authority.
func (g *Guarded) key(t testing.TB, name string) nkeys.KeyPair {
	t.Helper()
	return Key(t, filepath.Dir(g.Authority.SignerDir()), name)
}

// Key reads a key of the authority that is kept in a directory.
func Key(t testing.TB, dir, name string) nkeys.KeyPair {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(dir, "keys", name+".seed"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// changeAccount changes the claims of an account, as its operator may at any time.
// Connections that are there hear of it.
func (g *Guarded) changeAccount(t testing.TB, name string, change func(*jwt.AccountClaims)) {
	t.Helper()
	public := g.Authority.Names[name]
	token, err := g.options.AccountResolver.Fetch(public)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	change(claims)
	if token, err = claims.Encode(g.key(t, "operator")); err != nil {
		t.Fatal(err)
	}
	// An account whose time is over is not found, so it is looked up while its time lasts:
	// before the change that ends it, and after the one that brings it back.
	account, over := g.server.LookupAccount(public)
	if err := g.options.AccountResolver.Store(public, token); err != nil {
		t.Fatal(err)
	}
	if over != nil {
		if account, err = g.server.LookupAccount(public); err != nil {
			t.Fatal(err)
		}
	}
	g.server.UpdateAccountClaims(account, claims)
}

// ForgetRevocations restarts the bus with the accounts that the authority was opened with, as a bus that
// lost its directory of accounts.
func (g *Guarded) ForgetRevocations(t testing.TB) {
	t.Helper()
	g.Stop()
	g.options.AccountResolver = resolver(t, g.Authority)
	g.Start(t)
}
