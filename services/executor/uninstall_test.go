package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// ends waits until an executor has ended, without an error.
func ends(t *testing.T, ended chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still runs")
	}
}

// The host is as it was before: nothing is left of the one fleet, and the other beside
// it, with its agent, did not notice.
func TestAnUninstallLeavesNoTraceAndTouchesNoOther(t *testing.T) {
	t.Parallel()
	machine := t.TempDir()
	other := newHost(t, bustest.StartGuarded(t), filepath.Join(machine, "other"), identity.Manual)
	c := other.config()
	c.StopAgents = true
	_, stop := other.run(c)
	pid := other.daemon()
	other.eventually("its reports are out", func() bool {
		s, err := status.Read(string(other.root))
		return err == nil && s.Outbox == 0 && s.Connected
	})
	before := tree(t, machine)

	h := newHost(t, bustest.StartGuarded(t), filepath.Join(machine, "ours"), identity.Manual)
	ended, _ := h.run(h.config())
	mine := h.daemon()
	h.dead(h.proof(h.who.ServerID))
	ends(t, ended)
	if after := tree(t, machine); withoutSizes(after) != withoutSizes(before) {
		t.Errorf("left on the machine:\n%s\nwas before:\n%s", after, before)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(mine)); err == nil {
		t.Errorf("its agent %d still runs", mine)
	}
	if other.pid() != pid {
		t.Errorf("the other's agent was %d and is %d", pid, other.pid())
	}
	r := h.receipts()
	if len(r) != 1 || !names(r[0])["executor/identity.json"] || !names(r[0])["."] {
		t.Errorf("receipts %v", r)
	}
	if err := executor.New(h.config()).Run(context.Background()); !fault.Is(err, fault.NotFound) {
		t.Errorf("started once more it ends with %v", err)
	}
	stop()
}

// withoutSizes leaves out what a running executor changes all the time.
func withoutSizes(tree string) string {
	var out []string
	for line := range strings.Lines(tree) {
		f := strings.Fields(line)
		if !strings.Contains(f[0], ".garrison-tmp-") {
			out = append(out, f[0]+" "+f[1])
		}
	}
	return strings.Join(out, "\n")
}

func names(r *reportv1.ReceiptReport) map[string]bool {
	out := map[string]bool{}
	for _, p := range r.GetRemoved() {
		out[p.GetPath()] = p.GetLeftBecause() == ""
	}
	return out
}

func TestWhatSomebodyElsePutThereStaysAndIsReported(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	theirs := []string{"notes.txt", "agents/theirs", "images/readme", "executor/backup.db"}
	for _, name := range theirs {
		path := h.root.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	digest := strings.Repeat("ab", 32)
	if err := os.WriteFile(filepath.Join(elsewhere, digest), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.dead(h.proof(h.who.ServerID))
	c := h.config()
	c.FailPoint = func(p string) { // a link in the place of a directory of ours, when nothing of ours looks
		if p == "uninstall decided" {
			_ = os.Remove(h.root.Cache())
			_ = os.Symlink(elsewhere, h.root.Cache())
		}
	}
	ended, _ := h.run(c)
	ends(t, ended)
	for _, name := range append(theirs, "cache") {
		if _, err := os.Lstat(h.root.Path(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, digest)); err != nil {
		t.Errorf("behind the link: %v", err)
	}
	left, _ := filepath.Glob(string(h.root) + "/executor/*")
	if len(left) != 1 {
		t.Errorf("left of the executor: %v", left)
	}
	said := names(h.receipts()[0])
	for _, name := range append(theirs, "cache", "executor", ".") {
		if gone, ok := said[name]; gone || !ok {
			t.Errorf("the receipt says of %s: %v, %v", name, gone, ok)
		}
	}
}

// Everything but the two facts together leaves the executor where it is.
func TestADeadServerThatMayNotUninstallRests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ownership, key string
		tombstone      func(*host) *serverv1.Tombstone
		state, code    string
	}{
		"provisioned":       {identity.Provisioned, "", nil, status.Resting, "PROVISIONED"},
		"an older identity": {"", "none", nil, status.Resting, "NOT_PROVEN"},
		"provisioned, unsigned": {
			identity.Provisioned, "", func(*host) *serverv1.Tombstone { return nil }, status.Suspended,
			"NO_TOMBSTONE",
		},
		"an older, unsigned": {
			"", "none", func(*host) *serverv1.Tombstone { return nil }, status.Resting, "NOT_PROVEN",
		},
		"an ownership unknown": {"borrowed", "", nil, status.Resting, "OWNERSHIP_UNKNOWN"},
		"no tombstone": {
			identity.Manual, "", func(*host) *serverv1.Tombstone { return nil }, status.Suspended, "NO_TOMBSTONE",
		},
		"another's tombstone": {
			identity.Manual, "", func(h *host) *serverv1.Tombstone { return h.proof(here.Server) },
			status.Suspended, "OTHER_TOMBSTONE",
		},
		"another fleet's": {
			identity.Manual, "", func(h *host) *serverv1.Tombstone { return forged(h) }, status.Suspended,
			"BAD_TOMBSTONE",
		},
		"one that was tampered": {
			identity.Manual, "",
			func(h *host) *serverv1.Tombstone { p := h.proof(h.who.ServerID); p.Signature[3] ^= 1; return p },
			status.Suspended, "BAD_TOMBSTONE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), c.ownership)
			if c.key != "" {
				h.who.TombstoneKey = ""
				h.keep()
			}
			_, stop := h.run(h.config())
			h.state(status.Running, "")
			if c.tombstone == nil {
				c.tombstone = func(h *host) *serverv1.Tombstone { return h.proof(h.who.ServerID) }
			}
			identityFile, _ := os.ReadFile(h.root.Identity())
			h.dead(c.tombstone(h))
			s := h.state(c.state, c.code)
			if err := s.Healthy(time.Now()); (err == nil) != (c.state == status.Resting) {
				t.Errorf("its health is %v", err)
			}
			h.dead(c.tombstone(h)) // said again, it is no truer
			h.state(c.state, c.code)
			stop()
			if now, err := os.ReadFile(h.root.Identity()); err != nil || string(now) != string(identityFile) {
				t.Errorf("the identity is %q, %v", now, err)
			}
			if r := h.receipts(); len(r) != 0 {
				t.Errorf("it says that it removes itself: %v", r)
			}
		})
	}
}

func forged(h *host) *serverv1.Tombstone {
	h.t.Helper()
	stranger := newHost(h.t, bustest.StartGuarded(h.t), h.t.TempDir(), identity.Manual)
	return stranger.proof(h.who.ServerID)
}

// A death that is not believed takes no agent either, also after a restart; its agent is
// healed meanwhile. One that is believed later does.
func TestADeathThatIsNotBelievedKeepsTheAgentsUntilATrueOneComes(t *testing.T) {
	t.Parallel()
	for code, lie := range map[string]func(*host) *serverv1.Tombstone{
		"BAD_TOMBSTONE": forged,
		"NO_TOMBSTONE":  func(*host) *serverv1.Tombstone { return nil },
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			_, stop := h.run(h.config())
			pid := h.daemon()
			h.dead(lie(h))
			h.state(status.Suspended, code)
			h.healed(pid)
			pid = h.pid()
			stop()
			ended, _ := h.run(h.config())
			h.state(status.Suspended, code)
			h.eventually("the agent is taken over", func() bool { return h.pid() == pid })
			h.dead(h.proof(h.who.ServerID))
			ends(t, ended)
			if left := there(h); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func there(h *host) []string {
	left, _ := filepath.Glob(string(h.root) + "*")
	return left
}

// While the death is not recorded, no file of the executor's changes.
func TestBeforeTheDeathNothingIsUninstalled(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	ended, _ := h.run(h.config())
	h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_DYING}) // every duty is done, and the death is held back
	applied := func(n uint64) func() bool {
		return func() bool {
			s, err := status.Read(string(h.root))
			return err == nil && s.Applied == n && s.Outbox == 0
		}
	}
	h.eventually("it knows that it is dying", applied(1))
	before := withoutSizes(tree(t, string(h.root)))
	key, _ := os.ReadFile(h.root.Key())
	for range 3 {
		h.document(&desiredv1.Document{Life: serverv1.Life_LIFE_DYING})
		h.eventually("it heard again", applied(h.newest))
	}
	again, err := os.ReadFile(h.root.Key())
	if after := withoutSizes(tree(t, string(h.root))); after != before || err != nil || string(again) != string(key) {
		t.Errorf("before:\n%s\nafter:\n%s\n%v", before, after, err)
	}
	if r := h.receipts(); len(r) > 0 {
		t.Errorf("receipts %v", r)
	}
	h.dead(h.proof(h.who.ServerID))
	ends(t, ended)
}

// While the receipt cannot be stored, the files wait for it.
func TestTheFilesWaitForTheReceipt(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	h := newHost(t, g, filepath.Join(t.TempDir(), "root"), identity.Manual)
	c := h.config()
	c.FailPoint = func(p string) {
		if p == "receipt said" {
			g.Stop()
		}
	}
	ended, stop := h.run(c)
	h.dead(h.proof(h.who.ServerID))
	h.eventually("it waits", func() bool {
		s, err := status.Read(string(h.root))
		return err == nil && !s.Connected && s.Outbox > 0
	})
	stop()
	ends(t, ended)
	if _, err := os.Stat(h.root.Identity()); err != nil {
		t.Fatalf("the identity did not wait: %v", err)
	}
	g.Start(t)
	ended, _ = h.run(h.config())
	ends(t, ended)
	h.oneReceipt()
	if left := there(h); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAServerThatFindsItselfDeadWhenItConnectsGoesTheSameWay(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.dead(h.proof(h.who.ServerID))
	ended, _ := h.run(h.config())
	ends(t, ended)
	if len(there(h)) > 0 {
		t.Errorf("left: %v", there(h))
	}
}

func TestAContainerKeepsOneWordForItsNextStart(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.dead(h.proof(h.who.ServerID))
	c := h.config()
	c.Rejoins = true
	for range 2 {
		ended, _ := h.run(c)
		ends(t, ended)
		left, _ := filepath.Glob(string(h.root) + "/*/*")
		if len(left) != 1 || filepath.Base(left[0]) != "tombstone.json" {
			t.Fatalf("left: %v", left)
		}
		if s, err := status.Read(string(h.root)); err != nil || s.State != status.Decommissioned ||
			s.ServerID != h.who.ServerID {
			t.Fatalf("status %+v, %v", s, err)
		}
	}
}
