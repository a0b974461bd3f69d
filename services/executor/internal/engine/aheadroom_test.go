package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// lingering is a Fetcher that has brought one blob and does not end until it is opened.
type lingering struct {
	imagetest.Shelf
	of          string
	began, open chan struct{}
}

func (g lingering) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	if err := g.Shelf.Fetch(ctx, b, progress); err != nil || string(b.Digest) != g.of {
		return err
	}
	close(g.began)
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated begins an executor that is fetching an image ahead.
func (b *workbench) gated(m *imagev1.Manifest) (*running, lingering, string) {
	g := lingering{
		imagetest.Shelf{From: b.shelf, To: b.root}, string(m.Blob.Digest), make(chan struct{}), make(chan struct{}),
	}
	r := b.run(func(c *Config) { c.Fetcher = g })
	task := b.ahead(m, time.Hour)
	r.offer()
	<-g.began
	return r, g, task
}

func TestWhatIsBeingFetchedAheadGivesWayToAChangeThatNeedsTheRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.smallDisk("128m")
	early, late := b.image("cn-agent", "2.0.0", "ready"), b.image("cn-agent", "1.0.0", "ready")
	r, _, task := b.gated(early)
	free, err := space.Look(string(b.root))
	if err != nil {
		t.Fatal(err)
	}
	leave := steps.NeedBytes(late.Blob) + spareBytes - 1<<20 // what is fetched ahead holds more than that
	if free.Bytes < leave {
		t.Fatalf("the disk has %d free bytes, want %d", free.Bytes, leave)
	}
	f, err := os.Create(filepath.Join(filepath.Dir(string(b.root)), "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(free.Bytes-leave)); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.do(b.want(late)), good)
	o := outcome(t, r.wait(task), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.NoSpace || o.GetReason() != "a change needed the room that it took" {
		t.Errorf("it ended with %v", o)
	}
	if there(b.root.Image(early.Blob.Digest)) || there(b.root.CacheOf(early.Blob.Digest)) {
		t.Error("what was fetched ahead is on the disk still")
	}
}

func TestWhatIsBeingFetchedAheadStaysWholeWhenTheDocumentAsksNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, g, task := b.gated(b.image("cn-agent", "1.0.0", "ready"))
	b.noRequests()
	r.offer()
	r.eventually("the document is taken", func() bool {
		var applied uint64
		if err := r.j.Read(func(tx *journal.Tx) error { applied = tx.Applied(); return nil }); err != nil {
			t.Fatal(err)
		}
		return applied == b.doc.Generation
	})
	if err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	outcome(t, r.wait(task), good)
}
