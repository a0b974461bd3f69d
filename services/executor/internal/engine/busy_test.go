package engine

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// pipe is a fetcher whose last chunk is a pipe: its reader waits for its writer.
type pipe struct {
	imagetest.Shelf
	of string // the agent's only blob for which that is so
}

func (p pipe) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	if err := p.Shelf.Fetch(ctx, b, progress); err != nil || string(b.Digest) != p.of {
		return err
	}
	last := p.To.Chunk(b.Digest, len(b.ChunkDigests)-1)
	if err := os.Remove(last); err != nil {
		return err
	}
	return unix.Mkfifo(last, 0o600)
}

func TestDocumentsAreTakenWhileAnImageIsStaged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slow := b.image("gz-tools", "2.0.0", "", kind(agentv1.Kind_KIND_FILES))
	n := len(slow.Blob.ChunkDigests) - 1
	content, err := os.ReadFile(b.shelf.Chunk(slow.Blob.Digest, n))
	if err != nil {
		t.Fatal(err)
	}
	var fetched, staging atomic.Int32 // how many changes have come so far
	r := b.run(func(c *Config) {
		c.Fetcher = pipe{imagetest.Shelf{From: b.shelf, To: b.root}, string(slow.Blob.Digest)}
		c.FailPoint = func(p string) {
			switch p {
			case "begin verify":
				fetched.Add(1)
			case "begin stage":
				staging.Add(1)
			}
		}
	})
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	task := b.want(slow)
	r.offer()
	r.eventually("it is fetched", func() bool { return fetched.Load() == 2 })
	write := func() { // returns when it is read
		if err := os.WriteFile(b.root.Chunk(slow.Blob.Digest, n), content, 0o600); err != nil {
			t.Error(err)
		}
	}
	write()
	r.eventually("it is staged", func() bool { return staging.Load() == 2 })
	for range 3 {
		b.doc.Generation++
		r.offer()
		r.eventually("the document is taken", func() bool {
			var applied uint64
			if err := r.j.Read(func(tx *journal.Tx) error { applied = tx.Applied(); return nil }); err != nil {
				t.Fatal(err)
			}
			return applied == b.doc.Generation
		})
	}
	write()
	outcome(t, r.wait(task), good)
}
