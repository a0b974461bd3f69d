package bustest

import (
	"encoding/hex"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// ServeChunks answers requests for chunks from the stream until the test ends or stop is called, as the image-catalog
// does, but to every server. On a guarded bus the connection is the image-catalog's.
func ServeChunks(t testing.TB, c *bus.Conn) (stop func()) {
	t.Helper()
	stop, err := c.SubscribeShared(topology.ChunkRequestSubjects, topology.UserCatalog, func(m bus.Message) {
		a, err := topology.ParseChunkRequestSubject(m.Subject)
		if err != nil {
			t.Errorf("request for a chunk: %v", err)
			return
		}
		digest, _ := hex.DecodeString(a.Digest)
		stored, err := c.DirectGet(t.Context(), topology.Blobs, topology.BlobSubject(digest, a.Number))
		if err == nil {
			err = c.Publish(topology.ChunkAnswerSubject(a), stored.Data)
		} else if fault.Is(err, fault.NotFound) {
			err = c.PublishRefusal(topology.ChunkAnswerSubject(a),
				fault.Refusef(fault.NotFound, code.Incomplete, "chunk %d is not stored", a.Number))
		}
		if err != nil && t.Context().Err() == nil {
			t.Logf("chunk not answered: %v", err) // the bus is stopped by the test; the request is repeated
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}
