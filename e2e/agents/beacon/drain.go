package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// drainer ends a server without a request being lost.
//
// http.Server.Shutdown does not do that: a connection that was accepted an instant
// before, and whose request is read an instant after, is closed without an answer
// (conn.serve looks whether the server shuts down between the two). So nothing is told
// to shut down until every connection has had its answer.
type drainer struct {
	server *http.Server
	open   sync.WaitGroup // the connections
	served chan error     // what Serve ended with
}

func serve(server *http.Server, l net.Listener) *drainer {
	d := &drainer{server: server, served: make(chan error, 1)}
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s { // the first is said before Serve can return
		case http.StateNew:
			d.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			d.open.Done()
		}
	}
	go func() { d.served <- server.Serve(l) }()
	return d
}

// drain stops accepting, answers what was accepted, and ends. Idle connections are
// closed between two requests; clients of HTTP know that this happens.
func (d *drainer) drain(ctx context.Context, l net.Listener) error {
	err := l.Close() // the socket stays open where else it is held
	<-d.served       // from here on there are no new connections
	d.server.SetKeepAlivesEnabled(false)
	ended := make(chan struct{})
	go func() {
		d.open.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return errors.Join(err, d.server.Close())
}
