package executor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// abandoned is a server whose agent runs, with neither an executor nor a bus.
func abandoned(t *testing.T, ownership string) (h *host, agent int) {
	t.Helper()
	h = newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), ownership)
	_, stop := h.run(h.config())
	agent = h.daemon()
	stop()
	t.Cleanup(func() {
		if runs(agent) {
			_ = syscall.Kill(-agent, syscall.SIGKILL)
		}
	})
	if !runs(agent) {
		t.Fatal("the agent ended with its executor")
	}
	return h, agent
}

func runs(pid int) bool {
	// a process that ended has none, also a zombie
	_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil
}

// clean removes the executor with a tombstone, and returns the reported outcome.
func (h *host) clean(ctx context.Context, t *serverv1.Tombstone, dryRun bool) (*reportv1.CleanUpOutcome, error) {
	h.t.Helper()
	var reported *reportv1.CleanUpOutcome
	err := executor.Remove(
		ctx,
		h.config(),
		executor.Removal{Tombstone: t, DryRun: dryRun, Report: func(o *reportv1.CleanUpOutcome) error {
			if reported != nil {
				h.t.Error("the outcome is reported twice")
			}
			reported = o
			return nil
		}},
	)
	if reported == nil || reported.GetAt() == nil || reported.GetServerId() != t.GetServerId() {
		h.t.Fatalf("reported %v, and the error is %v", reported, err)
	}
	return reported, err
}

func pathsOf(o *reportv1.CleanUpOutcome) map[string]bool {
	return names(&reportv1.ReceiptReport{Removed: o.GetPaths()})
}

func TestAnAbandonedServerIsCleanedWithItsTombstoneAlone(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	h.g.Stop()
	defer h.g.Start(t)
	before := tree(t, string(h.root))
	would, err := h.clean(t.Context(), h.proof(h.who.ServerID), true)
	if err != nil || !would.GetDryRun() || !pathsOf(would)["agents/gz-tools"] || would.GetLeft() != 0 {
		t.Errorf("the dry run: %v, %v", would, err)
	}
	if after := tree(t, string(h.root)); after != before || !runs(agent) {
		t.Fatalf("the dry run changed something:\n%s\n%s", before, after)
	}
	o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false)
	if err != nil {
		t.Fatal(err)
	}
	if left := there(h); len(left) > 0 || runs(agent) {
		t.Errorf("left: %v; the agent runs: %v", left, runs(agent))
	}
	said := pathsOf(o)
	for _, path := range []string{
		"agents/gz-tools", "agents/gz-tools/current", "executor/identity.json", "executor/journal.db", ".",
	} {
		if !said[path] {
			t.Errorf("it does not say that %s went: %v", path, o.GetPaths())
		}
	}
	if o.GetLeft() != 0 || int(o.GetRemoved()) != len(o.GetPaths()) || o.GetRefusal() != nil {
		t.Errorf("it says %v", o)
	}
}

// What was cleaned and what was never there look the same, and neither is called clean: it
// is said where it was looked, and what to do when it was the right place.
func TestNothingLeftIsNotTakenForACleanUp(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	proof := h.proof(h.who.ServerID)
	if _, err := h.clean(t.Context(), proof, false); err != nil {
		t.Fatal(err)
	}
	cleaned := h.root
	for _, h.root = range []layout.Root{cleaned, layout.Root(t.TempDir())} {
		o, err := h.clean(t.Context(), proof, false)
		r := o.GetRefusal()
		if err == nil || r.GetCode() != "NO_EXECUTOR" ||
			!strings.HasSuffix(r.GetTry(), "garrison server forget "+h.who.ServerID) {
			t.Errorf("%v, %v", o, err)
		}
		for _, word := range []string{string(h.root), host, "look the same"} {
			if !strings.Contains(r.GetMessage(), word) {
				t.Errorf("it does not say %q: %s", word, r.GetMessage())
			}
		}
	}
}

func TestACleanUpLeavesAndNamesWhatSomebodyElsePutThere(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	h.write(h.root.Path("notes"), []byte("theirs"))
	o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false)
	if err != nil || runs(agent) {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(string(h.root) + "/*")
	// and the root, which holds it
	if gone, said := pathsOf(o)["notes"]; len(left) != 1 || !said || gone || o.GetLeft() != 2 {
		t.Errorf("left %v; it says %v", left, o)
	}
}

// The image keys of the join are removed; a file that an administrator wrote or changed since stays
// as it is.
func TestTheAdministratorsKeysOfImagesStay(t *testing.T) {
	t.Parallel()
	keys := make([]string, 2)
	for n := range keys {
		var err error
		if keys[n], _, err = seal.NewKey(); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		reported []string
		write    string // what a person has it say then; "" leaves it
		stays    bool
	}{
		"as it was sent":    {keys[:1], "", false},
		"changed since":     {keys[:1], keys[1] + "\n", true},
		"written by itself": {nil, keys[0] + "\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			if err := identity.PinImageKeys(h.root, c.reported); err != nil {
				t.Fatal(err)
			}
			if c.write != "" {
				h.write(h.root.ImageKeys(), []byte(c.write))
			}
			o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := os.ReadFile(h.root.ImageKeys())
			gone, said := pathsOf(o)["executor/image-keys"]
			if string(text) != c.write || !said || gone == c.stays {
				t.Errorf("the file is %q; reported as removed: %v, %v", text, gone, o)
			}
			if left, _ := filepath.Glob(h.root.Home() + "/*"); len(left) > 1 || len(left) == 1 && !c.stays {
				t.Errorf("left %v", left)
			}
		})
	}
}

// Everything but the two facts together removes nothing: no agent either.
func TestWithoutBothFactsACleanUpRemovesNothing(t *testing.T) {
	t.Parallel()
	other := "0197b5a0-0000-7000-8000-00000000000f"
	for name, c := range map[string]struct {
		ownership, code string
		spoil           func(*host)
		tombstone       func(*host) *serverv1.Tombstone
	}{
		"a provisioner's machine": {identity.Provisioned, "PROVISIONED", nil, nil},
		"an unknown ownership":    {"", "OWNERSHIP_UNKNOWN", nil, nil},
		"another's tombstone": {
			identity.Manual, "OTHER_TOMBSTONE", nil, func(h *host) *serverv1.Tombstone { return h.proof(other) },
		},
		"a stranger's signature": {identity.Manual, "BAD_TOMBSTONE", nil, forged},
		"another site": {identity.Manual, "BAD_TOMBSTONE", nil, func(h *host) *serverv1.Tombstone {
			p := h.proof(h.who.ServerID)
			p.Cell = "other"
			return p
		}},
		"no key to check with": {
			identity.Manual, "NOT_PROVEN", func(h *host) { h.who.TombstoneKey = ""; h.keep() }, nil,
		},
		"a damaged identity": {
			identity.Manual, "IDENTITY_UNREADABLE", func(h *host) { h.write(h.root.Identity(), []byte("{")) }, nil,
		},
		"a lost inventory": {identity.Manual, "NO_INVENTORY", func(h *host) {
			if err := os.Remove(h.root.Journal()); err != nil {
				h.t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, agent := abandoned(t, c.ownership)
			if c.spoil != nil {
				c.spoil(h)
			}
			proof := h.proof(h.who.ServerID)
			if c.tombstone != nil {
				proof = c.tombstone(h)
			}
			before := tree(t, string(h.root))
			o, err := h.clean(t.Context(), proof, false)
			if fault.RefusalOf(err).GetCode() != c.code || o.GetRefusal().GetCode() != c.code || o.GetRemoved() != 0 {
				t.Errorf("%v, %v; want %s", err, o, c.code)
			}
			if after := tree(t, string(h.root)); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
			if !runs(agent) {
				t.Error("the agent was ended")
			}
		})
	}
}

func TestACleanUpBesideARunningExecutorIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	_, stop := h.run(h.config())
	agent := h.daemon()
	o, err := h.clean(t.Context(), h.proof(h.who.ServerID), false)
	if o.GetRefusal().GetCode() != "EXECUTOR_RUNS" || err == nil || !runs(agent) {
		t.Errorf("%v, %v; the agent runs: %v", o, err, runs(agent))
	}
	stop()
	if _, err := h.clean(t.Context(), h.proof(h.who.ServerID), false); err != nil || runs(agent) {
		t.Errorf("behind it: %v", err)
	}
}

// A version that may take an hour to prove itself does not hold a clean-up of minutes up.
func TestACleanUpGivesAnInterruptedChangeUp(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	proves := make(chan string, 2)
	c := h.config()
	c.FailPoint = func(p string) {
		if p == "begin prove" {
			proves <- p
		}
	}
	_, stop := h.run(c)
	h.daemon()
	<-proves
	h.upgrade("2.0.0", &imagev1.Run{Command: "run", Ready: &imagev1.Ready{
		Probe: &imagev1.Ready_Tcp{Tcp: "127.0.0.1:1"}, TimeoutMs: uint32(time.Hour.Milliseconds()),
	}})
	<-proves
	stop()
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o, err := h.clean(within, h.proof(h.who.ServerID), false)
	if left := there(h); err != nil || len(left) > 0 {
		t.Errorf("%v, %v, left %v", err, o, left)
	}
}

// A removal whose outcome was not reported is not complete: the next try finds the mark and reports.
func TestACleanUpIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	h, agent := abandoned(t, identity.Manual)
	proof := h.proof(h.who.ServerID)
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if o, err := h.clean(late, proof, false); o.GetRefusal().GetCode() != "TIMED_OUT" || err == nil || !runs(agent) {
		t.Fatalf("without time: %v, %v", o, err)
	}
	broken := errors.New("the report was lost")
	err := executor.Remove(t.Context(), h.config(),
		executor.Removal{Tombstone: proof, Report: func(*reportv1.CleanUpOutcome) error { return broken }})
	if left := there(h); !errors.Is(err, broken) || runs(agent) || len(left) == 0 {
		t.Fatalf("untold: %v, left %v", err, left)
	}
	if o, err := h.clean(t.Context(), h.proof("0197b5a0-0000-7000-8000-00000000000f"), false); o.GetRefusal().
		GetCode() !=
		"OTHER_TOMBSTONE" {
		t.Errorf("with another's tombstone: %v, %v", o, err)
	}
	o, err := h.clean(t.Context(), proof, false)
	if left := there(h); err != nil || len(left) > 0 || o.GetRefusal() != nil || !pathsOf(o)["."] {
		t.Errorf("again: %v, %v, left %v", o, err, left)
	}
}
