package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// login is what somebody connects with.
type login struct{ name, jwt, seed string }

// connect connects with a login, without any of the project's own clients, until the attack ends.
func (t *trial) connect(who login, options ...nats.Option) *nats.Conn {
	t.Helper()
	c, err := t.dial(who, options...)
	if err != nil {
		t.Fatalf("connect as %s: %v", who.name, err)
	}
	t.Cleanup(c.Close)
	return c
}

// dial is connect for a login that the bus may refuse. The caller closes the connection.
func (w *world) dial(who login, options ...nats.Option) (*nats.Conn, error) {
	quiet := func(*nats.Conn, *nats.Subscription, error) {}
	return nats.Connect(w.URL(), append([]nats.Option{
		nats.UserJWTAndSeed(who.jwt, who.seed), nats.CustomInboxPrefix(topology.Inbox(who.name)),
		nats.Timeout(time.Minute), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(quiet),
	}, options...)...)
}

// denied publishes on a subject and returns the error with which the bus refused, or nil when it did not.
func (t *trial) denied(c *nats.Conn, subject string) error {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Reply = c.NewInbox()
	if err := errors.Join(c.PublishMsg(m), c.FlushTimeout(5*time.Second)); err != nil {
		t.Fatalf("publish on %s: %v", subject, err)
	}
	err := c.LastError() // the bus answers a refused publish before the ping of the flush
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), subject) {
		return err
	}
	return nil
}

// guest invites a server and returns the login of its join token.
func (t *trial) guest() (login, trust.Token) {
	t.Helper()
	out := t.ok(t.T, "server", "enroll", t.unused("guest"))
	token, err := trust.ParseToken(out)
	if err != nil {
		t.Fatal(err)
	}
	return login{token.ServerID, token.JWT, token.Seed}, token
}

// person returns the login of a person with a role.
func (t *trial) person(role topology.Role) login {
	t.Helper()
	authority, err := trust.OpenAuthority(filepath.Join(t.DataDir(), "trust"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := authority.Person(string(role)+"-"+t.unused("person"), role, t.URL(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return login{c.Actor, c.JWT, c.Seed}
}

// service returns the login of a service: topology.UserRegistry, for one.
func (t *trial) service(user string) login {
	t.Helper()
	jwt, seed, err := trust.ReadCredentials(filepath.Join(t.DataDir(), "trust", "services", user+".creds"))()
	if err != nil {
		t.Fatal(err)
	}
	return login{user, jwt, string(seed)}
}

// readLogin reads the files of a joined server, as a thief would.
func readLogin(t *testing.T, root string) (login, topology.ServerAddress) {
	t.Helper()
	var identity struct {
		ID   string `json:"server_id"`
		Cell string `json:"cell"`
		JWT  string `json:"jwt"`
	}
	var key struct {
		Seed string `json:"seed"`
	}
	for file, into := range map[string]any{"identity.json": &identity, "key.seed": &key} {
		data, err := os.ReadFile(filepath.Join(root, "executor", file))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(fmt.Errorf("read %s: %w", file, err))
		}
	}
	return login{identity.ID, identity.JWT, key.Seed},
		topology.ServerAddress{Cell: identity.Cell, Server: identity.ID}
}
