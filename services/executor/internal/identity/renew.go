package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Renew replaces the JWT of the identity under root by a later one for the same server and key, and
// the CAs of the bus, unless busCA is empty. It changes nothing else. An error is Invalid when the JWT
// is another user's, and Conflict when the identity is no longer of that key, as after another join.
func Renew(root layout.Root, publicKey, jwt, busCA string) error {
	i, err := Read(root)
	if err != nil {
		return err
	}
	if i.PublicKey != "" && i.PublicKey != publicKey {
		return fault.New(fault.Conflict, "the server joined with another key meanwhile")
	}
	if key, name := trust.UserOf(jwt); key != publicKey || name != i.ServerID {
		return fault.New(fault.Invalid, "the renewed credentials are of key %q and user %q, not of server %s",
			key, name, i.ServerID)
	}
	i.JWT, i.PublicKey = jwt, publicKey
	if busCA != "" {
		i.BusCA = busCA
	}
	return i.Write(root)
}

// TokenSum returns what an identity keeps of the token with which its server joined.
func TokenSum(t trust.Token) string {
	sum := sha256.Sum256([]byte(t.Secret))
	return hex.EncodeToString(sum[:])
}

// Supersedes reports whether a token was made to join this server again: it is another one than that
// with which the server joined, and no older than the server's credentials. An identity of an earlier
// version does not name its token.
func (i Identity) Supersedes(t trust.Token) bool {
	issued, _ := trust.Times(t.JWT)
	own, _ := trust.Times(i.JWT)
	if i.Token == "" {
		return issued.After(own)
	}
	return i.Token != TokenSum(t) && !issued.Before(own.Truncate(time.Second))
}

// JoinKey returns the key to join with: the next key while an earlier join with it did not end,
// otherwise the key under root, or again another one. It makes the key where it is missing.
func JoinKey(root layout.Root, again bool) (Key, error) {
	if k, err := readKeyAt(root.NextKey()); err == nil {
		return k, nil
	}
	if again {
		return NextKey(root)
	}
	return OpenKey(root)
}

// NextKey makes another key and keeps it beside the one under root.
func NextKey(root layout.Root) (Key, error) {
	k, err := makeKey()
	if err != nil {
		return k, err
	}
	return k, k.write(root.NextKey())
}

// DropNextKey deletes the next key, if there is one.
func DropNextKey(root layout.Root) error {
	if err := os.Remove(root.NextKey()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// TakeNextKey puts the next key in the place of the key under root when the identity is of the next
// one. It may be repeated: the next reader of the key completes a join that a crash interrupted.
func TakeNextKey(root layout.Root, publicKey string) error {
	next, err := readKeyAt(root.NextKey())
	if errors.Is(err, fs.ErrNotExist) || err == nil && next.Public != publicKey {
		return nil
	}
	if err == nil {
		err = os.Rename(root.NextKey(), root.Key())
	}
	if err != nil {
		return fmt.Errorf("take the next key: %w", err)
	}
	return layout.SyncDir(root.Home())
}

func makeKey() (Key, error) {
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return Key{Stamp: KeyFormat.Stamp(), Public: public, Seed: string(seed)}, nil
}

func (k Key) write(path string) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return layout.Write(path, data, 0o600)
}
