package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// unlimited connects to CORE as a user that may do everything there, for what the
// benchmark compares with. It is signed with the account's own key.
func unlimited(w *world) (*nats.Conn, error) {
	token, seed, err := anyone(w)
	if err != nil {
		return nil, err
	}
	return nats.Connect(w.URL(), nats.UserJWTAndSeed(token, string(seed)))
}

// anyone is unlimited through package bus.
func (w *world) anyone() (*bus.Conn, error) {
	token, seed, err := anyone(w)
	if err != nil {
		return nil, err
	}
	return bus.Dial(bus.Options{URL: w.URL(), Name: "bench", Credentials: func() (string, []byte, error) { return token, seed, nil }, Log: zerolog.Nop()})
}

// anyone signs a user of CORE without limits.
func anyone(w *world) (token string, seed []byte, err error) {
	accountSeed, err := os.ReadFile(filepath.Join(w.Dir, "data", "trust", "keys", topology.AccountCore+".seed"))
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
