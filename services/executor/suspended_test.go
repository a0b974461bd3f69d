package executor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// trouble is one way in which a bus does not let a server in.
type trouble struct {
	state, code string
	start       func(*host) // it begins
	end         func(*host) // it ends
}

// restarted makes every connection log in anew.
func restarted(h *host, change func()) {
	h.g.Stop()
	change()
	h.g.Start(h.t)
}

func (h *host) write(path string, data []byte) {
	h.t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// jwt returns the server a JWT that holds from one time until another.
func (h *host) jwt(from, until time.Time) {
	h.t.Helper()
	h.who.JWT = h.g.ServerJWT(h.t, h.who.PublicKey, h.who.ServerID, h.who.Cell, from, until)
	h.keep()
}

func troubles() map[string]trouble {
	restore := func(h *host) { h.g.Restore(h.t) }
	renew := func(h *host) { h.jwt(time.Time{}, time.Time{}) }
	var key []byte
	return map[string]trouble{
		"a wrong key": {status.Suspended, "LOGIN_DENIED", func(h *host) {
			key, _ = os.ReadFile(h.root.Key())
			other := newHost(h.t, h.g, h.t.TempDir(), identity.Manual)
			theirs, _ := os.ReadFile(other.root.Key())
			restarted(h, func() { h.write(h.root.Key(), theirs) })
		}, func(h *host) { h.write(h.root.Key(), key) }},
		"an unknown account": {status.Suspended, "LOGIN_DENIED", func(h *host) {
			stranger := newHost(h.t, bustest.StartGuarded(h.t), h.t.TempDir(), identity.Manual)
			restarted(h, func() {
				h.who.JWT = stranger.g.ServerJWT(h.t, h.who.PublicKey, h.who.ServerID, "main", time.Time{}, time.Time{})
				h.keep()
			})
		}, renew},
		"a time that is over at the login": {status.Suspended, "LOGIN_EXPIRED", func(h *host) {
			restarted(h, func() { h.jwt(time.Time{}, time.Now().Add(-time.Hour)) })
		}, renew},
		"a time that ends meanwhile": {status.Suspended, "LOGIN_EXPIRED", func(h *host) {
			restarted(h, func() { h.jwt(time.Time{}, time.Now().Add(2*time.Second)) })
		}, renew},
		"an account whose time is over": {status.Suspended, "LOGIN_EXPIRED", func(h *host) {
			// the bus takes no account whose time, in whole seconds, is over already
			h.g.ExpireServers(h.t, time.Now().Add(3*time.Second))
		}, restore},
		"a clock that is behind": {status.Suspended, "CLOCK_SKEW", func(h *host) {
			restarted(h, func() { h.jwt(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)) })
		}, renew},
		"a user that is revoked": {status.Suspended, "LOGIN_REVOKED", func(h *host) {
			h.g.Revoke(h.t, h.who.PublicKey)
		}, restore},
		"a bus that is away": {
			status.Running,
			"BUS_AWAY",
			func(h *host) { h.g.Stop() },
			func(h *host) { h.g.Start(h.t) },
		},
		"a key that is gone": {status.Suspended, "IDENTITY_UNREADABLE", func(h *host) {
			key, _ = os.ReadFile(h.root.Key())
			restarted(h, func() { _ = os.Remove(h.root.Key()) })
		}, func(h *host) { h.write(h.root.Key(), key) }},
		"an identity that is damaged": {status.Suspended, "IDENTITY_UNREADABLE", func(h *host) {
			restarted(h, func() { h.write(h.root.Identity(), []byte("{")) })
		}, func(h *host) { h.keep() }},
	}
}

// However a bus refuses a server, it costs nothing but time: the agent runs and is
// healed, no file goes, the executor says what is wrong, and comes back by itself.
func TestATemporaryAuthorisationErrorDoesNotUninstall(t *testing.T) {
	t.Parallel()
	for name := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trouble := troubles()[name]
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			c := h.config()
			c.StopAgents = true
			ended, _ := h.run(c)
			pid := h.daemon()
			before := files(t, h)

			trouble.start(h)
			s := h.state(trouble.state, trouble.code)
			if err := s.Healthy(time.Now()); (err == nil) != (trouble.state == status.Running) {
				t.Errorf("its health is %v", err)
			}
			// The bus sends its reason before it disconnects, so the next attempt may show a beat later.
			h.eventually("it says why, since when and when it tries again", func() bool {
				s, err := status.Read(string(h.root))
				return err == nil && !s.Connected && s.Reason != "" && !s.Since.IsZero() && !s.NextTry.IsZero()
			})
			h.healed(pid)
			select {
			case err := <-ended:
				t.Fatalf("it ended with %v", err)
			default:
			}
			trouble.end(h)
			h.eventually("it is back", func() bool {
				s, err := status.Read(string(h.root))
				return err == nil && s.State == status.Running && s.Code == "" && s.Connected &&
					s.Healthy(time.Now()) == nil
			})
			if after := files(t, h); after != before {
				t.Errorf("files were:\n%s\nand are:\n%s", before, after)
			}
			if h.g.URL != "" && len(h.receipts()) > 0 {
				t.Error("it said that it removes itself")
			}
		})
	}
}

// files lists the names that are kept under the root.
func files(t *testing.T, h *host) string {
	var out []string
	for line := range strings.Lines(withoutSizes(tree(t, string(h.root)))) {
		if !strings.Contains(line, "/run/") { // what runs changes
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// healed kills the agent and waits until another runs.
func (h *host) healed(pid int) {
	h.t.Helper()
	if h.pid() != pid {
		h.t.Errorf("the agent was %d and is %d", pid, h.pid())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.t.Error(err)
	}
	h.eventually("the agent is healed", func() bool { now := h.pid(); return now > 0 && now != pid })
}

// Started with an identity that cannot be read, or that is gone, it keeps its agents and waits.
func TestAnExecutorThatCannotTellWhoItIsKeepsItsAgents(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*host){
		"damaged": func(h *host) { h.write(h.root.Identity(), []byte("}")) },
		"empty":   func(h *host) { h.write(h.root.Identity(), nil) },
		"gone":    func(h *host) { _ = os.Remove(h.root.Identity()) },
		"another": func(h *host) { h.write(h.root.Identity(), []byte(`{"server_id":"","cell":"main"}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			_, stop := h.run(h.config())
			pid := h.daemon()
			h.dead(h.proof(here.Server)) // whatever the bus says meanwhile
			stop()
			spoil(h)
			c := h.config()
			c.StopAgents = true
			h.run(c)
			s := h.state(status.Suspended, "IDENTITY_UNREADABLE")
			if s.Healthy(time.Now()) == nil || s.Reason == "" || s.ServerID != h.who.ServerID {
				t.Errorf("status %+v", s)
			}
			h.eventually("the agent is taken over", func() bool { return h.pid() == pid })
			h.healed(pid)
			h.keep()
			h.state(status.Suspended, "OTHER_TOMBSTONE")
		})
	}
}

// The same policy keeps replaced versions for a rollback, also without an identity.
func TestAnExecutorThatCannotTellWhoItIsKeepsReplacedVersions(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	_, stop := h.run(h.config())
	h.daemonOf("1.0.0")
	pid := h.daemonOf("2.0.0")
	stop()
	h.write(h.root.Identity(), []byte("}"))
	c := h.config()
	c.StopAgents = true
	h.run(c)
	h.state(status.Suspended, "IDENTITY_UNREADABLE")
	h.eventually("the agent is taken over", func() bool { return h.pid() == pid })
	h.healed(pid) // so it has swept, if it does
	if kept, err := os.ReadDir(h.root.Images()); len(kept) != 2 {
		t.Errorf("%d images are on the disk, want the one that runs and the one before it: %v", len(kept), err)
	}
}

// Started with a key that cannot be read, an executor keeps its agents and waits for it.
func TestAnExecutorWithADamagedKeyKeepsItsAgents(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(h *host, key []byte){
		"empty":       func(h *host, _ []byte) { h.write(h.root.Key(), nil) },
		"cut":         func(h *host, key []byte) { h.write(h.root.Key(), key[:len(key)/2]) },
		"gone":        func(h *host, _ []byte) { _ = os.Remove(h.root.Key()) },
		"a bad seed":  func(h *host, _ []byte) { h.write(h.root.Key(), []byte(`{"public":"U","seed":"SU"}`)) },
		"one flipped": func(h *host, key []byte) { key[len(key)-30] ^= 1; h.write(h.root.Key(), key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			_, stop := h.run(h.config())
			pid := h.daemon()
			stop()
			key, err := os.ReadFile(h.root.Key())
			if err != nil {
				t.Fatal(err)
			}
			spoil(h, append([]byte(nil), key...))
			c := h.config()
			c.StopAgents = true
			h.run(c)
			s := h.state(status.Suspended, "IDENTITY_UNREADABLE")
			if s.Healthy(time.Now()) == nil || s.Reason == "" {
				t.Errorf("status %+v", s)
			}
			h.eventually("the agent is taken over", func() bool { return h.pid() == pid })
			h.healed(pid)
			h.write(h.root.Key(), key)
			h.state(status.Running, "")
		})
	}
}
