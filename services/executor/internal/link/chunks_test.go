package link_test

import (
	"context"
	"encoding/hex"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

// answer replaces the catalog by one that refuses requests until f returns nil.
func (s *stand) answer(t *testing.T, f func(request int64) error) {
	t.Helper()
	s.catalog()
	var requests atomic.Int64
	c := s.b.Dial(t, "image-catalog")
	stop, err := c.Subscribe(topology.ChunkRequestSubjects, func(m bus.Message) {
		a, err := topology.ParseChunkRequestSubject(m.Subject)
		if err != nil {
			t.Errorf("the executor requested %s: %v", m.Subject, err)
			return
		}
		if refusal := f(requests.Add(1)); refusal != nil {
			if err := c.PublishRefusal(topology.ChunkAnswerSubject(a), refusal); err != nil {
				t.Error(err)
			}
			return
		}
		digest, _ := hex.DecodeString(a.Digest)
		subject := topology.BlobSubject(digest, a.Number)
		stored, err := c.DirectGet(context.Background(), topology.Blobs, subject)
		if err == nil {
			err = c.Publish(topology.ChunkAnswerSubject(a), stored.Data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

func TestABusyCatalogIsAskedAgainWhenItSays(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	i := s.blob(t, imagetest.Regular("x", 0o644, []byte("x")))
	s.answer(t, func(request int64) error {
		if request > 6 {
			return nil
		}
		return fault.Refusef(fault.Unavailable, code.Busy, "too many").After(20 * time.Millisecond)
	})
	if err := s.link.Fetch(t.Context(), i.Manifest.Blob, func(uint64) {}); err != nil {
		t.Error(err)
	}
}

// The document may have changed since: it is read again, and the change fails if the catalog insists.
func TestAnImageThatTheDocumentDoesNotNameFailsWithTheCatalogsCode(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	i := s.blob(t, imagetest.Regular("x", 0o644, []byte("x")))
	s.answer(t, func(int64) error { return fault.Refusef(fault.Denied, code.NotYourImage, "not named") })
	bustest.Go(t, s.link.Run)
	s.store(t, topology.DesiredSubject(here),
		&desiredv1.Document{ServerId: here.Server, Cell: here.Cell, Generation: 1})
	polltest.Eventually(t, "the document is offered", func() bool { return s.room.last() != nil })
	before := s.room.count()
	err := s.link.Fetch(t.Context(), i.Manifest.Blob, func(uint64) {})
	if got := fault.RefusalOf(err).GetCode(); got != code.NotYourImage || !fault.Is(err, fault.Invalid) {
		t.Errorf("%v, want %s", err, code.NotYourImage)
	}
	polltest.Eventually(t, "the document is read again", func() bool { return s.room.count() > before })
}

// A request that the bus lost with the connection is repeated at once.
func TestAFetchGoesOnAfterAReconnect(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	i := s.blob(t, imagetest.Regular("x", 0o644, []byte("x")))
	s.catalog() // nothing answers
	requested := make(chan bus.Message, 1)
	if _, err := s.conn.Subscribe(topology.ChunkRequestSubjects, func(m bus.Message) {
		select {
		case requested <- m:
		default:
		}
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.link.Fetch(context.Background(), i.Manifest.Blob, func(uint64) {}) }()
	<-requested
	s.b.Restart(t, func(string) {})
	c := s.b.Dial(t, "image-catalog")
	polltest.Eventually(t, "the catalog is connected", c.Connected)
	bustest.ServeChunks(t, c)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(12 * time.Second): // less than it waits for an answer
		t.Error("the chunk was not requested again")
	}
}

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
		"CHUNK_MISSING": func(b *imagev1.Blob) { b.ChunkDigests = append(b.ChunkDigests, make([]byte, 32)) },
		"WRONG_DIGEST":  func(b *imagev1.Blob) { b.ChunkDigests[0] = make([]byte, 32) },
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
