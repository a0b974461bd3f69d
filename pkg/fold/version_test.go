package fold_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// snapshotOf50 keeps a snapshot of 50 tasks, written as if by the program that change describes.
func snapshotOf50(t *testing.T, h *harness, change func(*viewv1.Header)) (dir string, written []byte) {
	t.Helper()
	dir = t.TempDir()
	f, stop := h.follow(newCounting(), fold.Options{Store: dir})
	h.wait(f, h.queue("a", 50))
	stop()
	file := snapshotIn(t, dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data[:len(data)-sha256.Size])
	header := &viewv1.Header{}
	if err := protodelim.UnmarshalFrom(r, header); err != nil {
		t.Fatal(err)
	}
	change(header)
	var out bytes.Buffer
	if _, err := protodelim.MarshalTo(&out, header); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, out.Bytes()
}

// What an older program passed over is folded by one that knows it.
func TestASnapshotOfAProgramThatKnewOtherFactsIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*viewv1.Header){
		"it knew fewer": func(h *viewv1.Header) {
			h.Kinds = slices.DeleteFunc(h.Kinds, func(k string) bool { return k == "task.queued" })
		},
		"it knew more":        func(h *viewv1.Header) { h.Kinds = append(h.Kinds, "task.frozen") },
		"it folded otherwise": func(h *viewv1.Header) { h.FoldDigest[0] ^= 1 },
		"it named no facts": func(h *viewv1.Header) {
			h.Format, h.FormatFloor, h.Kinds, h.FoldDigest = 0, 0, nil, nil
		},
		"its format is newer":  func(h *viewv1.Header) { h.Format, h.FormatFloor = 9, 8 },
		"it had another store": func(h *viewv1.Header) { h.LedgerCreatedNs++ },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			dir, written := snapshotOf50(t, h, change)
			v := newCounting()
			f, stop := h.follow(v, fold.Options{Store: dir})
			if v.loaded || v.tasks.Len() != 50 {
				t.Errorf("snapshot used: %v; %d tasks, want 50 from a replay", v.loaded, v.tasks.Len())
			}
			h.wait(f, h.queue("b", 1))
			stop()
			if now, err := os.ReadFile(snapshotIn(t, dir)); err != nil || bytes.Equal(now, written) {
				t.Errorf("the snapshot was not replaced by one of this program (%v)", err)
			}
		})
	}
}

// A version that folds otherwise keeps its snapshot beside that of the version before, which finds it again. Of the
// versions before that, none is kept.
func TestAVersionThatIsGoneBackToFindsItsSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	dir := t.TempDir()
	run := func(layout uint32) (loaded bool) {
		v := newCounting()
		f, stop := h.follow(v, fold.Options{Store: dir, Layout: layout})
		h.wait(f, h.queue(ident.New(), 10))
		stop()
		return v.loaded
	}
	for _, c := range []struct {
		layout uint32
		found  bool
	}{{1, false}, {2, false}, {1, true}, {2, true}, {3, false}, {2, true}, {1, false}} {
		if found := run(c.layout); found != c.found {
			t.Errorf("layout %d: its snapshot was found: %v, want %v", c.layout, found, c.found)
		}
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*.view")); err != nil || len(all) != 2 {
		t.Errorf("snapshots of %d versions (%v), want 2", len(all), err)
	}
}

// snapshotIn returns the path of the one snapshot in a directory.
func snapshotIn(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.view"))
	if err != nil || len(all) != 1 {
		t.Fatalf("snapshots %v (%v), want one", all, err)
	}
	return all[0]
}

func writerOf(t *testing.T, f *fold.Follower) *bus.Writer {
	t.Helper()
	w := f.NewWriter()
	bustest.Go(t, w.Run)
	return w
}

// A decision that rests on facts which a program cannot read is refused, and what it can
// read is still there to be read.
func TestWhoCannotReadAFactDecidesNothingThatRestsOnIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	dir := t.TempDir()
	v := newCounting()
	f, stop := h.follow(v, fold.Options{Store: dir})
	w := writerOf(t, f)
	h.queue("a", 1)
	newer := bus.Durable{Subject: ledger.FactSubject(ledger.Task, "a0", "frozen"), Data: []byte("?")}
	end, err := h.conn.PublishDurable(t.Context(), newer)
	if err != nil {
		t.Fatal(err)
	}
	h.wait(f, end)
	refused := func(w *bus.Writer) {
		t.Helper()
		_, err := w.Append(t.Context(), ledger.OnKey(h.fact("a0", &taskv1.Cancelled{}), end))
		r := fault.RefusalOf(err)
		named := strings.Contains(r.GetMessage(), "task.frozen")
		if r.GetCode() != "SERVICE_TOO_OLD" || !fault.Is(err, fault.Unavailable) || !named {
			t.Errorf("%v, want SERVICE_TOO_OLD that names task.frozen", err)
		}
	}
	refused(w)
	if err := f.MayDecide(ledger.Instance); fault.RefusalOf(err).GetCode() != "SERVICE_TOO_OLD" {
		t.Errorf("about instances, which rest on tasks: %v, want it refused", err)
	}
	if err := f.MayDecide(ledger.Application); err != nil {
		t.Errorf("about applications, which do not rest on tasks: %v", err)
	}
	f.Read(func() {
		if _, there := v.tasks.Get("a0"); !there {
			t.Error("the task that can be read is not there")
		}
	})
	stop()

	// Also behind a snapshot, when the fact is not read again.
	v = newCounting()
	f, _ = h.follow(v, fold.Options{Store: dir})
	if !v.loaded || len(f.Unread()) != 1 || f.Unread()[0].Count != 1 || f.Unread()[0].First != end {
		t.Fatalf("from a snapshot (%v): cannot read %v, want one fact, at %d", v.loaded, f.Unread(), end)
	}
	refused(writerOf(t, f))
}

// A fact that is known in part is folded as far as it is known, and stops what depends on it. A fact of an unknown noun
// stops everything.
func TestWhoKnowsAFactInPartDecidesNothingThatRestsOnIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		noun    ledger.Noun
		named   string
		refused []ledger.Noun
		free    []ledger.Noun
	}{
		"a field": {
			ledger.Task, "unknown field 900", []ledger.Noun{ledger.Task, ledger.Instance}, []ledger.Noun{ledger.User},
		},
		"a noun": {"site", "no fact site.queued", []ledger.Noun{ledger.Task, ledger.User}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			conn := b.Dial(t, "test")
			h := &harness{t, conn, b.Writer(t, conn)}
			v := newCounting()
			f, _ := h.follow(v, fold.Options{Nouns: []ledger.Noun{ledger.Task}})
			newer := h.fact("a0", &taskv1.Queued{})
			header, data, err := ledger.Encode(newer, 1)
			if err != nil {
				t.Fatal(err)
			}
			header[ledger.HeaderContract] = []string{"2 v7.8.9"}
			data = protowire.AppendVarint(protowire.AppendTag(data, 900, protowire.VarintType), 1)
			h.wait(f, b.Store(t, ledger.FactSubject(c.noun, "a0", "queued"), header, data))
			for _, n := range c.refused {
				message := fault.RefusalOf(f.MayDecide(n)).GetMessage()
				if !strings.Contains(message, c.named) || !strings.Contains(message, "version v7.8.9") {
					t.Errorf("about the noun %s: %q, want it refused, with %q and the version", n, message, c.named)
				}
			}
			for _, n := range c.free {
				if err := f.MayDecide(n); err != nil {
					t.Errorf("about the noun %s: %v", n, err)
				}
			}
			f.Read(func() {
				if _, there := v.tasks.Get("a0"); there != (c.noun == ledger.Task) {
					t.Errorf("what is known of the fact is folded: %v", there)
				}
			})
		})
	}
}

// A service does not even start on a bus that a newer program finished.
func TestABusWithANewerContractInForceIsNotFollowed(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	b.SetLedgerMetadata(t, topology.MetadataContract, "2")
	f := fold.New(b.Dial(t, "test"), newCounting(), fold.Options{Service: "test", Log: zerolog.Nop()})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.Run(ctx); fault.RefusalOf(err).GetCode() != "TOPOLOGY_TOO_NEW" {
		t.Errorf("%v, want TOPOLOGY_TOO_NEW", err)
	}
}

// A version that is prepared leaves its snapshot beside those that are there: the one that runs, and another one that
// was prepared.
func TestWhatIsPreparedDeletesNoSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	dir := t.TempDir()
	f, stop := h.follow(newCounting(), fold.Options{Store: dir, Layout: 1})
	h.wait(f, h.queue("a", 10))
	stop()
	for layout := uint32(2); layout < 5; layout++ {
		spec := fold.Spec{Service: "test", Layout: layout, New: func() fold.View { return newCounting() }}
		found, err := fold.Prepare(t.Context(), h.conn, spec, dir)
		if err != nil || found.Folded != 10 {
			t.Fatalf("prepared %+v (%v), want ten facts folded", found, err)
		}
		if again, err := fold.Prepare(t.Context(), h.conn, spec, dir); err != nil || again.Folded != 0 {
			t.Errorf("prepared again %+v (%v), want its snapshot used", again, err)
		}
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*.view")); err != nil || len(all) != 4 {
		t.Errorf("%d snapshots (%v), want those of four versions", len(all), err)
	}
	v := newCounting()
	if _, stop := h.follow(v, fold.Options{Store: dir, Layout: 1}); !v.loaded {
		t.Error("the one that runs does not find its snapshot again")
	} else {
		stop()
	}
}
