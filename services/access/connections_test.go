package access_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestOneServerHasThreeConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	l, other := w.server(), w.server()
	untouched := w.connect(other)
	const tries = 200
	var all []*nats.Conn
	var mu sync.Mutex
	var each sync.WaitGroup
	for range 10 {
		each.Go(func() {
			for range tries / 10 {
				nc, err := w.bus.TryRaw(l.name, l.jwt, l.seed)
				if err == nil {
					mu.Lock()
					all = append(all, nc)
					mu.Unlock()
				}
			}
		})
	}
	each.Wait()
	if len(all) < tries/2 { // a busy machine refuses some, which take too long to log in
		t.Fatalf("%d of %d connections were made", len(all), tries)
	}
	defer func() {
		for _, nc := range all {
			nc.Close()
		}
	}()
	open := func() (n int) {
		for _, nc := range all {
			if nc.IsConnected() {
				n++
			}
		}
		return n
	}
	begun := time.Now()
	polltest.Eventually(t, "three connections are left", func() bool { return open() == 3 })
	t.Logf("%d connections ended as 3 after %v", len(all), time.Since(begun).Round(time.Millisecond))
	select {
	case <-untouched.gone:
		t.Error("another server's connection ended, too")
	default:
	}
	var r *accessv1.ListSessionsResponse
	polltest.Eventually(t, "the service has heard of every end", func() bool {
		r = must[*accessv1.ListSessionsResponse](w, w.admin, "ListSessions", &accessv1.ListSessionsRequest{})
		return len(r.Servers) == 1 && len(r.Servers[0].Sessions) == 3
	})
	one := r.Servers[0]
	if one.ServerId != l.name || int(one.Ended) < len(all)-3 || one.Sessions[0].Address == "" {
		t.Errorf("sessions: %v", one)
	}
	r = must[*accessv1.ListSessionsResponse](w, w.admin, "ListSessions",
		&accessv1.ListSessionsRequest{ServerId: other.name})
	if len(r.Servers) != 1 || len(r.Servers[0].Sessions) != 1 {
		t.Errorf("sessions of one server: %v, want its one", r.Servers)
	}
}
