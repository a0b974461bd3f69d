package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// drainer stops a server without losing a request.
//
// http.Server.Shutdown does not do that: a connection that was accepted an instant
// before, and whose request is read an instant after, is closed without an answer
// (conn.serve checks between the two whether the server shuts down). So the drainer
// shuts down only after every connection has had its answer.
type drainer struct {
	server *http.Server
	open   sync.WaitGroup // the connections
	served chan error     // the error of Serve
}

func serve(server *http.Server, l net.Listener) *drainer {
	d := &drainer{server: server, served: make(chan error, 1)}
	server.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s { // the first state is reported before Serve can return
		case http.StateNew:
			d.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			d.open.Done()
		}
	}
	go func() { d.served <- server.Serve(l) }()
	return d
}

// drain stops accepting, answers the accepted requests, and returns. It closes idle
// connections between two requests, which HTTP clients expect.
func (d *drainer) drain(ctx context.Context, l net.Listener) error {
	err := l.Close() // the socket stays open in other processes
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
