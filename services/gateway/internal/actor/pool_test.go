package actor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
)

// world is a pool that connects to a real bus, with users and a clock.
type world struct {
	*testing.T
	pool      *actor.Pool
	authority *trust.Authority
	logins    atomic.Int32
	refuse    atomic.Bool

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	b := bustest.Start(t)
	authority, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, authority: authority, now: time.Now()}
	w.pool = actor.NewPool(func(_ context.Context, who trust.Context) (*client.Client, error) {
		w.logins.Add(1)
		if w.refuse.Load() {
			return nil, fault.Refusef(fault.Denied, code.LoginRefused, "the bus refused the login of %s", who.Actor)
		}
		return client.New(b.Dial(t, who.Actor), time.Second), nil
	}, nil, w.clock)
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) token(name string) string {
	w.Helper()
	c, err := w.authority.Person(name, topology.Viewer, "nats://127.0.0.1", time.Time{})
	if err != nil {
		w.Fatal(err)
	}
	return c.Bearer()
}

func TestATokenHasOneConnectionAndEachTokenItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann, again := w.token("ann"), w.token("ann")
	var clients []*client.Client
	for _, token := range []string{ann, ann, again} {
		c, done, err := w.pool.Take(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		clients = append(clients, c)
	}
	if clients[0] != clients[1] || clients[0] == clients[2] {
		t.Error("the connections are not one of each token")
	}
	if clients[0].Actor() != "ann" || w.logins.Load() != 2 {
		t.Errorf("%d logins as %s, want 2 as ann", w.logins.Load(), clients[0].Actor())
	}
}

func TestARefusedTokenIsAskedForAgainLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.token("ann")
	w.refuse.Store(true)
	for range 3 {
		if _, _, err := w.pool.Take(t.Context(), ann); fault.RefusalOf(err).GetCode() != code.LoginRefused {
			t.Fatalf("the error is %v, want %s", err, code.LoginRefused)
		}
	}
	if w.logins.Load() != 1 {
		t.Errorf("%d logins, want 1", w.logins.Load())
	}
	w.refuse.Store(false)
	w.later(6 * time.Second)
	_, done, err := w.pool.Take(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	done()
}

func TestATokenHasABoundOfRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.token("ann")
	var all []func()
	for {
		_, done, err := w.pool.Take(t.Context(), ann)
		if err != nil {
			if fault.RefusalOf(err).GetCode() != code.Busy || len(all) != 64 {
				t.Errorf("after %d requests: %v", len(all), err)
			}
			break
		}
		all = append(all, done)
	}
	if _, done, err := w.pool.Take(t.Context(), w.token("bob")); err != nil {
		t.Errorf("another token is refused: %v", err)
	} else {
		done()
	}
	all[0]()
	if _, done, err := w.pool.Take(t.Context(), ann); err != nil {
		t.Errorf("after one ended: %v", err)
	} else {
		done()
	}
}

func TestConnectionsThatAreNotUsedEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann := w.token("ann")
	c, done, err := w.pool.Take(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	done()
	w.later(2 * time.Minute)
	other, done, err := w.pool.Take(t.Context(), ann)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if c == other || w.pool.Len() != 1 {
		t.Errorf("the connection is the same (%v), with %d tokens", c == other, w.pool.Len())
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stop"))
	if err := w.pool.Run(stopped); err != nil || w.pool.Len() != 0 {
		t.Errorf("after the stop: %d tokens (%v)", w.pool.Len(), err)
	}
}

func TestTokensThatSomebodyMakesUpTakeNoLoginOfAUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ann, bob := w.token("ann"), w.token("bob")
	if _, done, err := w.pool.Take(t.Context(), ann); err != nil {
		t.Fatal(err)
	} else {
		done()
	}
	other, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mine := w.authority
	w.authority = other
	w.refuse.Store(true)
	var made [40]string
	for i := range made {
		made[i] = w.token("eve")
	}
	for _, token := range made {
		if _, _, err := w.pool.Take(t.Context(), token); err == nil {
			t.Fatal("a token of another Garrison was taken")
		}
	}
	if logins := int(w.logins.Load()) - 1; logins == len(made) {
		t.Errorf("each of %d tokens that were made up cost a login", logins)
	}
	w.authority = mine
	w.refuse.Store(false)
	if _, done, err := w.pool.Take(t.Context(), bob); err != nil {
		t.Errorf("a user is refused: %v", err)
	} else {
		done()
	}
}
