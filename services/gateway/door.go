package gateway

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

const (
	// mostConnections bounds the connections of all clients.
	mostConnections = 4096
	// mostStrangers bounds those on which no request with a valid token came yet.
	mostStrangers = 512
)

// door bounds connections. When there are too many, the oldest stranger goes: a client that holds connections open
// without a token takes no place of one that has a token.
type door struct {
	mu        sync.Mutex
	all       map[net.Conn]*list.Element // nil for those that are no strangers
	strangers *list.List                 // of net.Conn, the oldest first
}

func newDoor() *door { return &door{all: map[net.Conn]*list.Element{}, strangers: list.New()} }

// state implements http.Server.ConnState.
func (d *door) state(c net.Conn, s http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch s {
	case http.StateNew:
		d.all[c] = d.strangers.PushBack(c)
		if d.strangers.Len() > mostStrangers || len(d.all) > mostConnections {
			d.turnAway(d.strangers.Front())
		}
	case http.StateClosed, http.StateHijacked:
		d.forget(c)
	}
}

// turnAway closes the connection of a stranger.
func (d *door) turnAway(e *list.Element) {
	c := e.Value.(net.Conn)
	d.forget(c)
	go func() { _ = c.Close() }() // closing TLS may wait for the other side
}

func (d *door) forget(c net.Conn) {
	if e := d.all[c]; e != nil {
		d.strangers.Remove(e)
	}
	delete(d.all, c)
}

// closeStrangers closes the connections of all strangers.
func (d *door) closeStrangers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.strangers.Len() > 0 {
		d.turnAway(d.strangers.Front())
	}
}

type connKey struct{}

// remember implements http.Server.ConnContext.
func (d *door) remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// known notes that a request with a valid token came on the connection of ctx.
func (d *door) known(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.all[c]; e != nil {
		d.strangers.Remove(e)
		d.all[c] = nil
	}
}
