package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/lru"
)

// BenchmarkDownload measures servers that download an image of 100 MB at the same time, and nothing else. The catalog
// has none of its chunks in memory at the start.
func BenchmarkDownload(b *testing.B) {
	s := newSite(b)
	i := bigSample()
	s.upload(i)
	for _, servers := range []int{1, 50} {
		b.Run(strconv.Itoa(servers), func(b *testing.B) {
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				readers := make([]*reader, servers) // new ones, which have their whole burst
				for n := range readers {
					readers[n] = s.reader()
					s.desire(readers[n].address, i.Manifest)
				}
				s.catalog.download.cache = lru.New[chunkKey, []byte](cachedBytes)
				before := cpuTime()
				b.StartTimer()
				var all sync.WaitGroup
				for _, r := range readers {
					all.Go(func() { r.readAll(b, i) })
				}
				all.Wait()
				cpu += cpuTime() - before
			}
			mb := float64(b.N*servers*len(i.content)) / 1e6
			b.ReportMetric(mb/b.Elapsed().Seconds(), "MB/s")
			b.ReportMetric(cpu.Seconds()/mb*1000, "CPU-s/GB")
		})
	}
}

// bigSample generates an image of 100 MB that does not compress.
func bigSample() sample {
	s := newSample("cn-agent", "1.0.0", "big", 0)
	s.content = make([]byte, 100_000_000)
	noise := rand.NewChaCha8([32]byte{1})
	_, _ = noise.Read(s.content)
	whole := sha256.Sum256(s.content)
	blob := s.Manifest.Blob
	blob.Digest, blob.ChunkSizeBytes, blob.ChunkDigests = whole[:], topology.ChunkSize, nil
	blob.SizeBytes, blob.UnpackedSizeBytes = uint64(len(s.content)), uint64(len(s.content))
	for at := 0; at < len(s.content); at += topology.ChunkSize {
		d := sha256.Sum256(s.content[at:min(at+topology.ChunkSize, len(s.content))])
		blob.ChunkDigests = append(blob.ChunkDigests, d[:])
	}
	s.Manifest.Id = manifest.ID(s.Manifest)
	return s
}

// readAll requests every chunk, topology.ChunkWindow at a time, and drops what arrives.
func (r *reader) readAll(b *testing.B, i sample) {
	chunks := len(i.Blob.ChunkDigests)
	arrived := make(chan bus.Message, topology.ChunkWindow)
	stop, err := r.conn.Subscribe(topology.ChunkAnswersOf(r.address, i.Blob.Digest),
		func(m bus.Message) { arrived <- m })
	if err != nil {
		b.Error(err)
		return
	}
	defer stop()
	digest := hex.EncodeToString(i.Blob.Digest)
	for n := range min(topology.ChunkWindow, chunks) {
		r.request(digest, n)
	}
	for n := range chunks {
		select {
		case m := <-arrived:
			if err := bus.RefusedIn(m); err != nil {
				b.Errorf("%s: %v", m.Subject, err)
				return
			}
		case <-time.After(time.Minute):
			b.Error("no answer came")
			return
		}
		if next := n + topology.ChunkWindow; next < chunks {
			r.request(digest, next)
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
