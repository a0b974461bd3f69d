package link_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

func (s *stand) blob(t *testing.T, files ...imagetest.File) imagetest.Image {
	t.Helper()
	i := imagetest.New(t, "cn-agent", "1.0.0", &imagev1.Run{}, files...)
	for n, c := range i.Chunks {
		chunk := bus.Durable{Subject: topology.BlobSubject(i.Manifest.Blob.Digest, n), Data: c, Once: true}
		if _, err := s.conn.PublishDurable(context.Background(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// noise does not compress, so that a blob has many chunks.
func noise(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func TestABlobIsFetchedOnceAndEachChunkVerified(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	i := s.blob(t, imagetest.Regular("x", 0o644, noise(3<<20)))
	b := i.Manifest.Blob
	if len(i.Chunks) < 20 {
		t.Fatalf("only %d chunks", len(i.Chunks))
	}
	var done uint64
	if err := s.link.Fetch(context.Background(), b, func(d uint64) { done = d }); err != nil {
		t.Fatal(err)
	}
	if done != b.GetSizeBytes() {
		t.Errorf("%d of %d bytes", done, b.GetSizeBytes())
	}
	// A chunk that is damaged on the disk is fetched again; the others are not, so they need no longer
	// be on the bus.
	if err := os.WriteFile(s.root.Chunk(b.GetDigest(), 3), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range i.Chunks {
		if n != 3 {
			if err := s.conn.Purge(
				context.Background(), topology.Blobs, topology.BlobSubject(b.GetDigest(), n),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.link.Fetch(context.Background(), b, func(uint64) {}); err != nil {
		t.Fatal(err)
	}
}

func TestAChunkThatIsMissingOrWrongIsRefused(t *testing.T) {
	t.Parallel()
	for code, harm := range map[string]func(*imagev1.Blob){
		"CHUNK_MISSING":  func(b *imagev1.Blob) { b.ChunkDigests = append(b.ChunkDigests, make([]byte, 32)) },
		"CHUNK_MISMATCH": func(b *imagev1.Blob) { b.ChunkDigests[0] = make([]byte, 32) },
	} {
		t.Run(code, func(t *testing.T) {
			s := newStand(t)
			i := s.blob(t, imagetest.Regular("x", 0o644, []byte("x")))
			harm(i.Manifest.Blob)
			err := s.link.Fetch(context.Background(), i.Manifest.Blob, func(uint64) {})
			if got := fault.RefusalOf(err).GetCode(); got != code {
				t.Errorf("got %v, want %s", err, code)
			}
		})
	}
}

func TestProgressIsToldAtEachStepAndOnceASecondWithinIt(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	said := make(chan string, 100)
	stop, err := s.conn.Subscribe(topology.LiveSubject(here, topology.LiveTask), func(m bus.Message) {
		p := &taskv1.Progress{}
		_ = bus.Unmarshal(m, p)
		said <- p.GetTaskId() + p.GetStep().String()[len("STEP"):]
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 10 {
		s.link.Progress(&taskv1.Progress{TaskId: "a", Step: taskv1.Step_STEP_FETCH})
		s.link.Progress(&taskv1.Progress{TaskId: "b", Step: taskv1.Step_STEP_FETCH})
	}
	s.link.Progress(&taskv1.Progress{TaskId: "a", Step: taskv1.Step_STEP_PROVE})
	s.link.Progress(&taskv1.Progress{TaskId: "end", Step: taskv1.Step_STEP_FETCH})
	var got []string
	for len(got) == 0 || got[len(got)-1] != "end_FETCH" {
		select {
		case id := <-said:
			got = append(got, id)
		case <-time.After(time.Minute):
			t.Fatalf("the end is not reported; got %v", got)
		}
	}
	if want := []string{"a_FETCH", "b_FETCH", "a_PROVE", "end_FETCH"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
