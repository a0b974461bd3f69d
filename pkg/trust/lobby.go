package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// LobbyLogin returns the JWT with which the bus lets in a client without credentials (default_sentinel of nats-server).
// It is no secret: it permits nothing but a request to join, in an account of its own. It is made once, and kept.
func (a *Authority) LobbyLogin() (string, error) {
	path := a.path("lobby.jwt")
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the login of the lobby: %w", err)
	}
	token := strings.TrimSpace(string(kept))
	seed, err := os.ReadFile(a.path("keys", topology.AccountLobby+"-"+topology.UserLobby+".seed"))
	if err != nil {
		return "", fmt.Errorf("read the signing key of the lobby: %w", err)
	}
	account := a.Names[topology.AccountLobby]
	if claims, err := jwt.DecodeUserClaims(token); err == nil && claims.IssuerAccount == account {
		return token, nil
	}
	public, _, err := NewUserKey() // its private half is not kept
	if err != nil {
		return "", err
	}
	key := signingKey{Account: account, Seed: string(seed)}
	if token, err = key.user(topology.UserLobby, public, nil, time.Time{}); err != nil {
		return "", err
	}
	return token, writeFile(path, []byte(token+"\n"))
}

// knockPrefix keeps the signature of other data from counting as that of a knock.
const knockPrefix = "garrison knock v1\n"

// SignKnock signs what a machine says of itself, with the seed of its key.
func SignKnock(seed, knock []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("read the machine's key: %w", err)
	}
	defer pair.Wipe()
	return pair.Sign(append([]byte(knockPrefix), knock...))
}

// CheckKnock refuses what the key did not sign. The error is Invalid.
func CheckKnock(public string, knock, signature []byte) error {
	if err := CheckPublicKey(public); err != nil {
		return err
	}
	pair, err := nkeys.FromPublicKey(public)
	if err == nil {
		err = pair.Verify(append([]byte(knockPrefix), knock...), signature)
	}
	if err != nil {
		return fault.New(fault.Invalid, "the knock is not signed by the key %.60q: %w", public, err)
	}
	return nil
}

// CheckSealKey refuses what is not the public half of a seal key. The error is Invalid.
func CheckSealKey(public string) error {
	if !nkeys.IsValidPublicCurveKey(public) {
		return fault.New(fault.Invalid, "seal key %.60q is not a curve key", public)
	}
	return nil
}
