package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// loginWithin bounds a login at a bus that is busy with the logins of many servers.
const loginWithin = time.Minute

// unlimited connects to an account as a user with every permission there, to measure the bare
// limits. The account's own key signs the user.
func unlimited(w *world, account string) (*nats.Conn, error) {
	token, seed, err := anyone(w, account)
	if err != nil {
		return nil, err
	}
	return nats.Connect(w.URL(), nats.UserJWTAndSeed(token, string(seed)), nats.Timeout(loginWithin))
}

// anyone connects to CORE like unlimited, but through package bus.
func (w *world) anyone() (*bus.Conn, error) {
	token, seed, err := anyone(w, topology.AccountCore)
	if err != nil {
		return nil, err
	}
	return bus.Dial(bus.Options{
		URL:         w.URL(),
		Name:        "bench",
		Persist:     true, // the bus may be busy
		Credentials: func() (string, []byte, error) { return token, seed, nil },
		Log:         zerolog.Nop(),
	})
}

// anyone signs a user of an account without limits.
func anyone(w *world, of string) (token string, seed []byte, err error) {
	accountSeed, err := os.ReadFile(filepath.Join(w.Dir, "data", "trust", "keys", of+".seed"))
	if err != nil {
		return "", nil, err
	}
	account, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(accountSeed))))
	if err != nil {
		return "", nil, err
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return "", nil, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "bench"
	token, err = claims.Encode(account)
	return token, seed, err
}
