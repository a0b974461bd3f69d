package catalog

import (
	"context"
	"encoding/hex"
	"time"

	"golang.org/x/sync/singleflight"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/lru"
)

const (
	// documentFor is how long a server may read an image that its document no longer names.
	documentFor = 30 * time.Second
	// documentReads is how often the document of a server is read in a second, because it does not name an image.
	documentReads = 10
	// documentsBytes bounds what the documents that are kept name.
	documentsBytes = 32 << 20
	digestBytes    = 128 // of one named image, in memory
)

// documents answers which images the document of a server names.
type documents struct {
	conn    *bus.Conn
	kept    *lru.Cache[topology.ServerAddress, named]
	reads   *pace.Pace // of documents that do not name what is requested
	reading singleflight.Group
}

// named is the content of the images that a document names.
type named struct {
	digests map[string]bool
	read    time.Time
}

func newDocuments(conn *bus.Conn) *documents {
	return &documents{
		conn: conn, kept: lru.New[topology.ServerAddress, named](documentsBytes),
		reads: pace.New(documentReads, time.Second),
	}
}

// name reports whether the document of the server names the image. A document that does not is read again, at most
// documentReads times a second: the dispatcher may have written it since.
func (d *documents) name(ctx context.Context, a topology.ChunkAddress) (bool, error) {
	n, ok := d.kept.Get(a.ServerAddress)
	if ok && time.Since(n.read) < documentFor && n.digests[a.Digest] {
		return true, nil
	}
	if _, free := d.reads.Take(a.Server); ok && !free {
		return false, nil
	}
	v, err, _ := d.reading.Do(a.ServerAddress.String(), func() (any, error) {
		return d.readAgain(ctx, a.ServerAddress)
	})
	if err != nil {
		return false, err
	}
	return v.(named).digests[a.Digest], nil
}

func (d *documents) readAgain(ctx context.Context, a topology.ServerAddress) (named, error) {
	n := named{digests: map[string]bool{}, read: time.Now()}
	m, err := d.conn.DirectGet(ctx, topology.Desired, topology.DesiredSubject(a))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return named{}, err
	}
	doc := &desiredv1.Document{}
	if err == nil {
		if err := bus.Unmarshal(m, doc); err != nil {
			return named{}, err
		}
	}
	for _, e := range doc.GetEntries() {
		n.digests[hex.EncodeToString(e.GetImage().GetBlob().GetDigest())] = true
	}
	for _, q := range doc.GetRequests() {
		if q.GetAhead() != nil {
			n.digests[hex.EncodeToString(q.GetAhead().GetBlob().GetDigest())] = true
		}
	}
	d.kept.Put(a, n, (len(n.digests)+1)*digestBytes)
	return n, nil
}
