package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/text"
)

// The formats of contexts and tokens. A token has its number in its first word.
var (
	contextFormat = format.Spec{Kind: "context", Now: 2, Floor: 1}
	tokenFormat   = format.Spec{Kind: "join token", Now: 3, Floor: 2, Oldest: 1}
)

// Context configures the access of a person to a Garrison: the addresses, the name, and the credentials.
type Context struct {
	format.Stamp
	URL   string `json:"url"`
	Actor string `json:"actor"`
	Role  string `json:"role"`
	JWT   string `json:"jwt"`
	Seed  string `json:"seed"`
	// CA holds the CAs that may sign the bus's certificate, as PEM; without it the bus is known by the CAs of the
	// operating system. Format 1 has none.
	CA         string `json:"ca,omitempty"`
	AllowPlain bool   `json:"allow_plain,omitempty"` // connect without TLS to another host
	HTTP       string `json:"http,omitempty"`        // where a gateway serves HTTP, as far as it is known
	File       string `json:"-"`                     // where it was read
}

// ErrDamaged marks a file that exists but has invalid content.
var ErrDamaged = errors.New("damaged")

const remake = "copy it again from where it was made; a garrisond makes the one in its data directory anew at " +
	"its next start"

// ReadContext reads a context file. The error for invalid content is ErrDamaged.
func ReadContext(path string) (Context, error) {
	var c Context
	data, err := regular.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read context: %w", err)
	}
	if data, err = text.Plain(data); err != nil {
		return c, fault.New(fault.Invalid, "context %s is %w: %w; %s", path, ErrDamaged, err, remake)
	}
	if err := contextFormat.ReadJSON(path, data, &c); fault.Is(err, fault.Invalid) {
		return c, err
	} else if err != nil { // where the JSON breaks helps no one who did not write it
		return c, fault.New(fault.Invalid, "context %s is %w: it does not hold a context; %s", path, ErrDamaged, remake)
	}
	if c.URL == "" || c.Actor == "" {
		return c, fault.New(fault.Invalid, "context %s is %w: it lacks url or actor; %s", path, ErrDamaged, remake)
	}
	c.File = path
	return c, nil
}

// Write keeps the context in a file of mode 0600.
func (c Context) Write(path string) error {
	c.Stamp = contextFormat.Stamp()
	if c.CA != "" {
		c.Floor = 2 // older programs would not know the bus
	}
	return writeJSON(path, c)
}

// Credentials returns the credentials of a connection.
func (c Context) Credentials() (string, []byte, error) { return c.JWT, []byte(c.Seed), nil }

// WriteCredentials keeps a user's JWT and seed in a credentials file in the format of NATS tools.
func WriteCredentials(path, token string, seed []byte) error {
	data, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return fmt.Errorf("format credentials: %w", err)
	}
	return writeFile(path, data)
}

// ReadCredentials returns the content of the credentials file, read again at each call.
func ReadCredentials(path string) func() (string, []byte, error) {
	return func() (string, []byte, error) {
		data, err := regular.ReadFile(path)
		if err != nil {
			return "", nil, fmt.Errorf("read credentials: %w", err)
		}
		token, err := jwt.ParseDecoratedJWT(data)
		if err != nil {
			return "", nil, fmt.Errorf("read credentials %s: %w", path, err)
		}
		pair, err := jwt.ParseDecoratedUserNKey(data)
		if err != nil {
			return "", nil, fmt.Errorf("read credentials %s: %w", path, err)
		}
		seed, err := pair.Seed()
		return token, seed, err
	}
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile writes a secret file, whole or not at all.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".trust-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
