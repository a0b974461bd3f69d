package link_test

import (
	"context"
	"encoding/hex"
	"sync/atomic"
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
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
