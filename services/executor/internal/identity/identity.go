// Package identity keeps the identity of this executor: its own key, which never leaves the server,
// and the JWT that the registry issued for it.
//
// Guarantees:
//
//  1. The key is on the disk before its public half leaves the server, so an interrupted join is
//     repeated with the same key.
//  2. Key and identity are files of mode 0600, written whole or not at all.
//  3. Only a join writes the identity, and a renewal its JWT, so that a running executor cannot
//     permit itself its own removal.
//  4. A join with another key takes effect as a whole: at each moment the key that is read is the
//     one that the identity names.
//  5. A file that another user could change is not read; nor is a key that another user could read.
package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Format numbers the identity, and KeyFormat the key. Files without a number are read.
var (
	Format    = format.Spec{Kind: "identity", Now: 2, Floor: 1}
	KeyFormat = format.Spec{Kind: "key", Now: 1, Floor: 1}
)

// Identity says which server this is and where its bus is.
type Identity struct {
	format.Stamp
	ServerID  string `json:"server_id"`
	Cell      string `json:"cell"`
	URL       string `json:"url"`
	PublicKey string `json:"public_key,omitempty"`
	JWT       string `json:"jwt,omitempty"`
	Token     string `json:"token_sha256,omitempty"` // of the secret of the token with which it joined

	// Ownership is Manual or Provisioned; without it the executor never removes itself. It and
	// TombstoneKey come once, in the answer to the join, and are empty in an older identity.
	Ownership    string `json:"ownership,omitempty"`
	TombstoneKey string `json:"tombstone_key,omitempty"` // public half of the key that signs tombstones

	// BusCA holds the CAs that may sign the bus's certificate, as PEM. The join wrote it, and renewals replace it.
	BusCA      string `json:"bus_ca,omitempty"`
	AllowPlain bool   `json:"allow_plain,omitempty"` // the join allowed a bus on another host without TLS
}

// The ownerships.
const (
	Manual      = "manual"
	Provisioned = "provisioned"
)

// OwnershipWord returns an ownership as the file keeps it; empty when it is unknown.
func OwnershipWord(o serverv1.Ownership) string {
	switch o {
	case serverv1.Ownership_OWNERSHIP_MANUAL:
		return Manual
	case serverv1.Ownership_OWNERSHIP_PROVISIONED:
		return Provisioned
	}
	return ""
}

// Owner returns the ownership. An unreadable one is unknown.
func (i Identity) Owner() serverv1.Ownership {
	for _, o := range []serverv1.Ownership{
		serverv1.Ownership_OWNERSHIP_MANUAL, serverv1.Ownership_OWNERSHIP_PROVISIONED,
	} {
		if i.Ownership == OwnershipWord(o) {
			return o
		}
	}
	return serverv1.Ownership_OWNERSHIP_UNSPECIFIED
}

// Address returns the server's address in subjects.
func (i Identity) Address() topology.ServerAddress {
	return topology.ServerAddress{Cell: i.Cell, Server: i.ServerID}
}

// ErrDamaged reports that the identity exists and cannot be read.
var ErrDamaged = errors.New("the identity is damaged")

// Read returns the identity under root. An error is NotFound without one, and ErrDamaged when it
// cannot be read.
func Read(root layout.Root) (Identity, error) {
	var i Identity
	data, err := strictdir.ReadFile(root.Identity())
	if errors.Is(err, fs.ErrNotExist) {
		return i, fault.New(fault.NotFound, "%s has no identity", root)
	}
	if err != nil {
		return i, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("%w: %s: %w", ErrDamaged, root.Identity(), err)
	}
	if err := errors.Join(Format.Check(root.Identity(), i.Stamp), i.check()); err != nil {
		return i, fmt.Errorf("%w: %s: %w", ErrDamaged, root.Identity(), err)
	}
	i.Stamp = format.Stamp{} // about the file, not about the server
	return i, nil
}

func (i Identity) check() error {
	if err := ident.Check("server id", i.ServerID); err != nil {
		return err
	}
	for name, value := range map[string]string{"url": i.URL, "jwt": i.JWT} {
		if value == "" {
			return fault.New(fault.Invalid, "the identity has no %s", name)
		}
	}
	if i.BusCA != "" {
		if _, err := trust.ParseBundle([]byte(i.BusCA)); err != nil {
			return fault.New(fault.Invalid, "the CA of the bus: %w", err)
		}
	}
	return ident.CheckName("cell", i.Cell)
}

// Write writes the identity under root.
func (i Identity) Write(root layout.Root) error {
	if err := i.check(); err != nil {
		return err
	}
	i.Stamp = Format.Stamp()
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return layout.Write(root.Identity(), append(data, '\n'), 0o600)
}

// Key is the executor's own key.
type Key struct {
	format.Stamp
	Public string `json:"public"`
	Seed   string `json:"seed"`
}

// OpenKey returns the key under root, and makes one first where it is missing.
func OpenKey(root layout.Root) (Key, error) {
	if err := strictdir.Make(root.Home(), 0o700); err != nil {
		return Key{}, err
	}
	k, err := readKey(root)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if k, err = makeKey(); err != nil {
		return Key{}, err
	}
	return k, k.write(root.Key())
}

// readKey returns the key under root, after the end of a join that a crash interrupted.
func readKey(root layout.Root) (Key, error) {
	if i, err := Read(root); err == nil {
		if err := TakeNextKey(root, i.PublicKey); err != nil {
			return Key{}, err
		}
	}
	return readKeyAt(root.Key())
}

func readKeyAt(path string) (Key, error) {
	var k Key
	data, err := strictdir.ReadSecret(path)
	if err != nil {
		return k, fmt.Errorf("read key: %w", err)
	}
	if err := json.Unmarshal(data, &k); err != nil || k.Seed == "" {
		return k, fmt.Errorf("key %s is damaged: %w", path, errors.Join(err, fs.ErrInvalid))
	}
	return k, KeyFormat.Check(path, k.Stamp)
}

// CheckKey returns why the key under root is unusable, with ErrDamaged.
func CheckKey(root layout.Root) error {
	k, err := readKey(root)
	if err == nil {
		err = trust.CheckUserKey(k.Public, []byte(k.Seed))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// PublicKey returns the public half of the key under root. An error is fs.ErrNotExist without a key.
func PublicKey(root layout.Root) (string, error) {
	k, err := readKey(root)
	return k.Public, err
}

// Credentials returns a function that reads the credentials of a connection from the disk at each
// call, so that it uses a renewed key or JWT.
func Credentials(root layout.Root) func() (string, []byte, error) {
	return func() (string, []byte, error) {
		i, err := Read(root)
		if err != nil {
			return "", nil, err
		}
		k, err := readKey(root)
		return i.JWT, []byte(k.Seed), err
	}
}

// Remove deletes key and identity.
func Remove(root layout.Root) error {
	var all error
	for _, path := range []string{root.Identity(), root.NextKey(), root.Key()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, layout.SyncDir(root.Home()))
}

// TLS returns how the server with an identity under root knows its bus. The CAs are read from the disk at each
// connect.
func (i Identity) TLS(root layout.Root) bus.TLS {
	return bus.TLS{
		CA: func() ([]byte, error) {
			now, err := Read(root)
			return []byte(now.BusCA), err
		},
		Source:     root.Identity(),
		Renew:      "garrison server revoke NAME, garrison server enroll NAME, then executor join --token-file FILE",
		AllowPlain: i.AllowPlain,
	}
}
