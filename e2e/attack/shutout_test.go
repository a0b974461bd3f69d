package attack

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

// cutOffWithin is how long a connection may outlive the command that shuts its owner out. The book prints how long it
// does; on a busy machine a process may not run for seconds.
func cutOffWithin() time.Duration {
	if *full {
		return 2 * time.Second
	}
	return 30 * time.Second
}

func init() {
	add(attack{
		name: "stay connected while quarantined", as: "server",
		tried:   "an open connection, and new ones, with a key that is in order",
		stopped: "access has the bus refuse the key", run: stayWhileQuarantined,
	})
	add(attack{
		name: "come back with void credentials", as: "server",
		tried: "logins after server revoke", stopped: "access has the bus refuse the key",
		run: func(t *trial) string {
			return t.shutOut(t.attacker.login, "server", "revoke", t.attacker.Name, "-m", "stolen", "--yes")
		},
	})
	add(attack{
		name: "stay connected when given up", as: "server",
		tried: "logins after decommission --lost --force", stopped: "access has the bus refuse the key",
		run: func(t *trial) string {
			return t.shutOut(t.attacker.login, "server", "decommission", t.attacker.Name, "--lost", "--force", "--yes")
		},
	})
	add(attack{
		name: "go on with a revoked context", as: "operator",
		tried: "an open connection, and new ones, after user revoke", stopped: "access has the bus refuse the key",
		run: func(t *trial) string {
			name := t.unused("user")
			file := filepath.Join(t.T.TempDir(), "context.json")
			t.ok(t.T, "user", "create", name, "--role", "operator", "--file", file)
			c, err := trust.ReadContext(file)
			if err != nil {
				t.Fatal(err)
			}
			return t.shutOut(login{c.Actor, c.JWT, c.Seed}, "user", "revoke", name, "--yes")
		},
	})
	add(attack{
		name: "take the bus's connections", as: "server",
		tried: "500 connections with one key", stopped: "access ends those beyond the third", run: takeConnections,
	})
}

// shutOut runs a command that must end the connection of a login and keep it out.
func (t *trial) shutOut(who login, command ...string) string {
	t.Helper()
	gone := make(chan struct{})
	t.connect(who, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	t.ok(t.T, command...)
	begun := time.Now()
	select {
	case <-gone:
	case <-time.After(cutOffWithin()):
		t.Errorf("the connection is open %v after the command", cutOffWithin())
	}
	took := time.Since(begun).Round(time.Millisecond)
	for range 20 {
		if c, err := t.dial(who, nats.NoReconnect()); err == nil {
			c.Close()
			t.Fatal("the bus lets it in again")
		}
	}
	return fmt.Sprintf("cut off %v after the command, 20 logins refused", took)
}

func stayWhileQuarantined(t *trial) string {
	effect := t.shutOut(t.attacker.login, "server", "quarantine", t.attacker.Name, "-m", "mad", "--yes")
	t.ok(t.T, "server", "release", t.attacker.Name, "-m", "well", "--yes")
	t.eventually("a released server is let in", func() error {
		c, err := t.dial(t.attacker.login, nats.NoReconnect())
		if err == nil {
			c.Close()
		}
		return err
	})
	return effect + "; let in after its release"
}

func takeConnections(t *trial) string {
	const tries = 500
	var mu sync.Mutex
	var all []*nats.Conn
	var each sync.WaitGroup
	for range 10 {
		each.Go(func() {
			for range tries / 10 {
				if c, err := t.dial(t.attacker.login, nats.NoReconnect()); err == nil {
					mu.Lock()
					all = append(all, c)
					mu.Unlock()
				}
			}
		})
	}
	each.Wait()
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	t.eventually("three connections are left", func() error {
		open := 0
		for _, c := range all {
			if c.IsConnected() {
				open++
			}
		}
		if open != 3 {
			return fmt.Errorf("%d are open", open)
		}
		return nil
	})
	if err := t.upgrade(t.Context()); err != nil {
		t.Errorf("upgrade of another server: %v", err)
	}
	return fmt.Sprintf("%d of %d connections were let in, 3 are left", len(all), tries)
}
