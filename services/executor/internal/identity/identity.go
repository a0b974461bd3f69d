// Package identity keeps who this executor is: its own key, which never leaves the
// server, and the JWT that the registry gave for it.
//
// Guarantees:
//
//  1. The key is on the disk before anybody is told its public half, so a join that was
//     interrupted is repeated with the same key.
//  2. Key and identity are files of mode 0600, written whole or not at all.
//  3. The identity is written by a join and by nothing else, so that nothing that runs can
//     give itself the leave to remove itself.
package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Format numbers the identity, and KeyFormat the key. Those from before there were numbers are read.
var (
	Format    = format.Spec{Kind: "identity", Now: 1, Floor: 1}
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

	// These are told once, in the answer to the join, and are empty in an older identity.
	Ownership    string `json:"ownership,omitempty"`     // Manual or Provisioned; without it the executor never removes itself
	TombstoneKey string `json:"tombstone_key,omitempty"` // public half of the key that signs tombstones
}

// The ownerships.
const (
	Manual      = "manual"
	Provisioned = "provisioned"
)

// Told gives the ownership as it is kept; empty when it is not known.
func Told(o serverv1.Ownership) string {
	switch o {
	case serverv1.Ownership_OWNERSHIP_MANUAL:
		return Manual
	case serverv1.Ownership_OWNERSHIP_PROVISIONED:
		return Provisioned
	}
	return ""
}

// Owner gives the ownership that is kept. What cannot be read is not known.
func (i Identity) Owner() serverv1.Ownership {
	for _, o := range []serverv1.Ownership{serverv1.Ownership_OWNERSHIP_MANUAL, serverv1.Ownership_OWNERSHIP_PROVISIONED} {
		if i.Ownership == Told(o) {
			return o
		}
	}
	return serverv1.Ownership_OWNERSHIP_UNSPECIFIED
}

// Address gives the server's place in subjects.
func (i Identity) Address() topology.ServerAddress {
	return topology.ServerAddress{Cell: i.Cell, Server: i.ServerID}
}

// ErrDamaged says that there is an identity, and that it cannot be read.
var ErrDamaged = errors.New("the identity is damaged")

// Read gives the identity kept under root. An error is NotFound when there is none, and
// ErrDamaged when it cannot be read.
func Read(root layout.Root) (Identity, error) {
	var i Identity
	data, err := os.ReadFile(root.Identity())
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
	return ident.CheckName("cell", i.Cell)
}

// Write keeps the identity under root.
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

// OpenKey gives the key kept under root, and makes and keeps one first if there is none.
func OpenKey(root layout.Root) (Key, error) {
	if err := os.MkdirAll(root.Home(), 0o700); err != nil {
		return Key{}, fmt.Errorf("make %s: %w", root.Home(), err)
	}
	k, err := readKey(root)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	k = Key{Stamp: KeyFormat.Stamp(), Public: public, Seed: string(seed)}
	data, err := json.Marshal(k)
	if err != nil {
		return Key{}, err
	}
	return k, layout.Write(root.Key(), data, 0o600)
}

func readKey(root layout.Root) (Key, error) {
	var k Key
	data, err := os.ReadFile(root.Key())
	if err != nil {
		return k, fmt.Errorf("read key: %w", err)
	}
	if err := json.Unmarshal(data, &k); err != nil || k.Seed == "" {
		return k, fmt.Errorf("key %s is damaged: %w", root.Key(), errors.Join(err, fs.ErrInvalid))
	}
	return k, KeyFormat.Check(root.Key(), k.Stamp)
}

// CheckKey reports why the key kept under root is none, with ErrDamaged.
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

// PublicKey gives the public half of the key kept under root. An error is fs.ErrNotExist when there is none.
func PublicKey(root layout.Root) (string, error) {
	k, err := readKey(root)
	return k.Public, err
}

// Credentials gives what a connection proves itself with, read again at each call, so
// that a key or JWT that was renewed on the disk is used.
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

// Remove deletes key and identity, when the server is dead.
func Remove(root layout.Root) error {
	var all error
	for _, path := range []string{root.Identity(), root.Key()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return errors.Join(all, layout.SyncDir(root.Home()))
}
