package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// fetched are operations whose chunks come from a bus, by the executor's own link.
var fetched = []operation{
	{"install, bus", "cn-agent", "1.0.0", "ready", nil, good, false},
	{"upgrade, bus", "cn-agent", "2.0.0", "ready", beside, good, false},
	{"remove, bus", "cn-agent", "", "", nil, good, false},
}

func TestAFetchFromTheBusKilledAtAnyInstantGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	r, st := newRound(t, "SIGKILL, from a bus", killsVariable, fetched), newStand(t)
	r.run(t, 2*runtime.GOMAXPROCS(0), func(t *testing.T) *life { return newLife(t, fetched).from(st) })
	st.resumed(t)
}

func TestAFetchFromTheBusThatLosesPowerAtAnyInstantEndsWhole(t *testing.T) {
	t.Parallel()
	r := newRound(t, "power cut, from a bus", cutsVariable, fetched)
	r.skipWithoutDisks(t)
	st := newStand(t)
	r.run(t, 2, func(t *testing.T) *life { return newLife(t, fetched).on(powercut.New(t, diskSize)).from(st) })
}

// login is an executor's access to the bus.
type login struct{ URL, JWT, Seed string }

// stand is a bus with the real accounts, and counts the chunks that lives fetched from it.
type stand struct {
	login  login
	conn   *bus.Conn
	store  *bus.Conn // as the catalog, which stores blobs
	mu     sync.Mutex
	stored map[string]*imagev1.Blob
	kept   int // chunks that a killed executor had fetched and no later one fetched again
}

func newStand(t *testing.T) *stand {
	t.Helper()
	g := bustest.StartGuarded(t)
	token, seed := g.ServerUser(t, serverID, "main")
	s := &stand{
		login:  login{g.URL, token, string(seed)},
		store:  g.Service(t, topology.UserCatalog),
		stored: map[string]*imagev1.Blob{},
	}
	g.ServeChunks()
	var err error
	if s.conn, err = s.login.dial(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.conn.Close)
	return s
}

func (l login) dial() (*bus.Conn, error) {
	return bus.Dial(bus.Options{
		URL: l.URL, Name: serverID, API: topology.NodesAPI, Log: zerolog.Nop(), Persist: true,
		Credentials: func() (string, []byte, error) { return l.JWT, []byte(l.Seed), nil },
	})
}

// resumed asserts that a fetch was resumed.
func (s *stand) resumed(t *testing.T) {
	fmt.Printf("%d chunks were fetched before a kill, and not again\n\n", s.kept)
	if s.kept == 0 {
		t.Error("no fetch was interrupted when chunks had come")
	}
}

// from makes a life fetch its chunks from a bus.
func (l *life) from(s *stand) *life {
	l.stand = s
	for _, m := range l.images {
		m.Blob = s.offer(l.t, l.shelf, m.Blob)
	}
	return l
}

const smallChunk = 16 << 10 // a blob has some hundred

// offer stores a blob from a shelf on the bus, in small chunks.
func (s *stand) offer(t *testing.T, shelf layout.Root, b *imagev1.Blob) *imagev1.Blob {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.stored[string(b.Digest)]; have != nil {
		return have
	}
	var whole []byte
	for n := range b.ChunkDigests {
		data, err := os.ReadFile(shelf.Chunk(b.Digest, n))
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, data...)
	}
	out := &imagev1.Blob{
		Digest:            b.Digest,
		SizeBytes:         b.SizeBytes,
		UnpackedSizeBytes: b.UnpackedSizeBytes,
		Entries:           b.Entries,
		ChunkSizeBytes:    smallChunk,
	}
	for n := 0; len(whole) > 0; n++ {
		data := whole[:min(smallChunk, len(whole))]
		sum := sha256.Sum256(data)
		out.ChunkDigests, whole = append(out.ChunkDigests, sum[:]), whole[len(data):]
		chunk := bus.Durable{Subject: topology.BlobSubject(b.Digest, n), Data: data, Once: true}
		if _, err := s.store.PublishDurable(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	s.stored[string(b.Digest)] = out
	return out
}

// chunkwise is a link that tells a fail point of each chunk that came.
type chunkwise struct {
	*link.Link
	failPoint func(string)
}

func newChunkwise(conn *bus.Conn, root layout.Root, failPoint func(string)) chunkwise {
	return chunkwise{link.New(link.Config{
		Conn: conn, Address: topology.ServerAddress{Cell: "main", Server: serverID}, Root: root, Log: zerolog.Nop(),
	}), failPoint}
}

const chunkPoint = "chunk "

// Fetch implements Fetcher.
func (c chunkwise) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	n := 0
	return c.Link.Fetch(ctx, b, func(done uint64) {
		progress(done)
		n++
		c.failPoint(chunkPoint + strconv.Itoa(n))
	})
}

// chunksOf says how many chunks had come when these points were passed.
func chunksOf(passed []string) (n int) {
	for _, p := range passed {
		if s, ok := strings.CutPrefix(p, chunkPoint); ok {
			n, _ = strconv.Atoi(s)
		}
	}
	return n
}

// again is the fetch after an interruption, when the image was not staged before. It
// complains of chunks that had come and are gone, or are fetched again.
type again struct {
	chunkwise
	life *life
}

// Fetch implements Fetcher.
func (a again) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	l := a.life
	had := l.whole(b)
	if l.disk == nil && len(had) < l.came {
		l.lost = append(l.lost, fmt.Sprintf("%d chunks had come, %d are there", l.came, len(had)))
	}
	err := a.chunkwise.Fetch(ctx, b, progress)
	for n, before := range had {
		if now, err := os.Stat(l.root.Chunk(b.Digest, n)); err != nil || !os.SameFile(before, now) ||
			before.ModTime() != now.ModTime() {
			l.lost = append(l.lost, fmt.Sprintf("chunk %d was there and was fetched again (%v)", n, err))
		}
	}
	l.stand.mu.Lock()
	l.stand.kept += len(had)
	l.stand.mu.Unlock()
	return err
}

// whole returns the chunks in the cache that are right.
func (l *life) whole(b *imagev1.Blob) map[int]fs.FileInfo {
	out := map[int]fs.FileInfo{}
	for n, want := range b.ChunkDigests {
		data, err := os.ReadFile(l.root.Chunk(b.Digest, n))
		if sum := sha256.Sum256(data); err != nil || !bytes.Equal(sum[:], want) {
			continue
		}
		if info, err := os.Stat(l.root.Chunk(b.Digest, n)); err == nil {
			out[n] = info
		}
	}
	return out
}
