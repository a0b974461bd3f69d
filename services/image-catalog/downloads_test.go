package catalog

import (
	"bytes"
	"encoding/hex"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// site is a catalog on a bus with the real accounts, and its operator.
type site struct {
	*client
	g       *bustest.Guarded
	catalog *Catalog
	writes  *bus.Conn // the task-dispatcher's connection
}

func newSite(t testing.TB) *site {
	t.Helper()
	g := bustest.StartGuarded(t)
	c, _ := startCatalog(t, g)
	return &site{&client{t, g.Person(t, "ada", topology.Operator)}, g, c, g.Service(t, topology.UserDispatcher)}
}

// startCatalog runs a replica of the catalog until the test ends or stop is called.
func startCatalog(t testing.TB, g *bustest.Guarded) (c *Catalog, stop func()) {
	t.Helper()
	c, err := New(Config{Conn: g.Service(t, topology.UserCatalog), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	stop = bustest.Serve(t, c.Run, c.follower.Serving())
	return c, stop
}

// desire writes the document of a server, which names images.
func (s *site) desire(a topology.ServerAddress, images ...*imagev1.Manifest) {
	s.t.Helper()
	d := &desiredv1.Document{ServerId: a.Server, Cell: a.Cell}
	for _, m := range images {
		d.Entries = append(d.Entries, &desiredv1.Entry{Agent: m.Agent, Image: m})
	}
	s.write(a, d)
}

// write writes the document of a server.
func (s *site) write(a topology.ServerAddress, d *desiredv1.Document) {
	s.t.Helper()
	data, err := proto.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	document := bus.Durable{Subject: topology.DesiredSubject(a), Data: data}
	if _, err := s.writes.PublishDurable(s.t.Context(), document); err != nil {
		s.t.Fatal(err)
	}
}

// reader is a server that keeps to no limit.
type reader struct {
	t       testing.TB
	conn    *bus.Conn
	address topology.ServerAddress
	answers chan bus.Message
}

func (s *site) reader() *reader {
	s.t.Helper()
	a := topology.ServerAddress{Cell: "main", Server: ident.New()}
	return &reader{t: s.t, conn: s.g.Server(s.t, a.Server, a.Cell), address: a, answers: make(chan bus.Message, 1)}
}

func (r *reader) chunk(digest string, n int) topology.ChunkAddress {
	return topology.ChunkAddress{ServerAddress: r.address, Digest: digest, Number: n}
}

// read requests a chunk once and returns the answer.
func (r *reader) read(digest []byte, n int) ([]byte, error) {
	r.t.Helper()
	stop, err := r.conn.Subscribe(topology.ChunkAnswersOf(r.address, digest), func(m bus.Message) { r.answers <- m })
	if err != nil {
		r.t.Fatal(err)
	}
	defer stop()
	r.request(hex.EncodeToString(digest), n)
	select {
	case m := <-r.answers:
		return m.Data, bus.RefusedIn(m)
	case <-time.After(time.Minute):
		r.t.Fatal("no answer came")
		return nil, nil
	}
}

func (r *reader) request(digest string, n int) {
	r.t.Helper()
	if err := r.conn.Publish(topology.ChunkRequestSubject(r.chunk(digest, n)), nil); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) refused(digest []byte, n int, code string) {
	r.t.Helper()
	if data, err := r.read(digest, n); fault.RefusalOf(err).GetCode() != code {
		r.t.Errorf("chunk %d: %d bytes, %v; want %s", n, len(data), err, code)
	}
}

func TestAServerReadsTheImagesThatItsDocumentNamesAndNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mine, other := newSample("cn-agent", "1.0.0", "mine", 5000), newSample("cn-agent", "2.0.0", "other", 5000)
	s.upload(mine)
	s.upload(other)
	r := s.reader()
	r.refused(mine.Blob.Digest, 0, "NOT_YOUR_IMAGE") // without a document

	s.desire(r.address, mine.Manifest)
	polltest.Eventually(t, "the new document is read", func() bool {
		data, err := r.read(mine.Blob.Digest, 0)
		return err == nil && bytes.Equal(data, mine.chunk(0))
	})
	for n := range mine.Blob.ChunkDigests {
		if data, err := r.read(mine.Blob.Digest, n); err != nil || !bytes.Equal(data, mine.chunk(n)) {
			t.Errorf("chunk %d: %d bytes, %v", n, len(data), err)
		}
	}
	r.refused(mine.Blob.Digest, 5, "NO_SUCH_CHUNK")
	r.refused(other.Blob.Digest, 0, "NOT_YOUR_IMAGE")
	r.refused(make([]byte, 32), 0, "NOT_YOUR_IMAGE")
}

func TestAServerReadsTheImageThatItFetchesAhead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ahead, other := newSample("cn-agent", "1.0.0", "ahead", 5000), newSample("cn-agent", "2.0.0", "other", 5000)
	s.upload(ahead)
	s.upload(other)
	r := s.reader()
	requests := []*desiredv1.Request{{TaskId: "report"}, {TaskId: "ahead", Ahead: ahead.Manifest}}
	s.write(r.address, &desiredv1.Document{ServerId: r.address.Server, Cell: r.address.Cell, Requests: requests})
	if data, err := r.read(ahead.Blob.Digest, 0); err != nil || !bytes.Equal(data, ahead.chunk(0)) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	r.refused(other.Blob.Digest, 0, "NOT_YOUR_IMAGE")
}

func TestAChunkThatIsNotStoredOrCorruptIsRefusedAndNotKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newSample("cn-agent", "1.0.0", "mine", 5000)
	s.create(i.Manifest)
	r := s.reader()
	s.desire(r.address, i.Manifest)
	r.refused(i.Blob.Digest, 0, "INCOMPLETE")
	damage(t, s.catalog.cfg.Conn, i.Manifest, 0)
	r.refused(i.Blob.Digest, 0, "WRONG_DIGEST")
	if err := s.catalog.content.purge(t.Context(), i.Blob.Digest); err != nil {
		t.Fatal(err)
	}
	s.put(i.Manifest, 0, i.chunk(0))
	if data, err := r.read(i.Blob.Digest, 0); err != nil || !bytes.Equal(data, i.chunk(0)) {
		t.Errorf("%d bytes, %v, want the chunk that was stored since", len(data), err)
	}
}

// A server that requests without end gets no more at a time than its window, and delays no other.
func TestAServerThatRequestsWithoutEndDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newSample("cn-agent", "1.0.0", "mine", 5000)
	s.upload(i)
	mad, other := s.reader(), s.reader()
	s.desire(mad.address, i.Manifest)
	s.desire(other.address, i.Manifest)
	for range 20_000 {
		mad.request(hex.EncodeToString(i.Blob.Digest), 0)
	}
	if data, err := other.read(i.Blob.Digest, 1); err != nil || !bytes.Equal(data, i.chunk(1)) {
		t.Errorf("another server received %d bytes, %v", len(data), err)
	}
	polltest.Eventually(t, "the rest is refused or dropped", func() bool {
		d := s.catalog.download
		return d.dropped.Load() > 0 && d.refused.Load() > 0 && d.queue.count() == 0
	})
}

// A replica that stops leaves no request without an answer: its server would wait for one for long.
func TestAReplicaThatStopsAnswersWhatWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newSample("cn-agent", "1.0.0", "mine", 5000)
	s.upload(i)
	_, stop := startCatalog(t, s.g)
	const servers = 100
	var answers, again atomic.Int64
	var readers []*reader
	for range servers {
		r := s.reader()
		s.desire(r.address, i.Manifest)
		if _, err := r.conn.Subscribe(topology.ChunkAnswersOf(r.address, i.Blob.Digest), func(m bus.Message) {
			if answers.Add(1); bus.RefusedIn(m) != nil {
				again.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	for _, r := range readers {
		for n := range topology.ChunkWindow {
			r.request(hex.EncodeToString(i.Blob.Digest), n%len(i.Blob.ChunkDigests))
		}
	}
	stop()
	polltest.Eventually(t, "every request has an answer", func() bool {
		return answers.Load() == servers*topology.ChunkWindow
	})
	t.Logf("%d of %d requests are to be repeated", again.Load(), answers.Load())
}
