package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// world is a fleet in a temporary directory.
type world struct{ *fleet.Fleet }

// newWorld starts a control plane: the bus alone, or everything.
func newWorld(ctx context.Context, s settings, busOnly bool) (*world, error) {
	dir, err := os.MkdirTemp("", "garrison-bench-")
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Options{Bin: s.bin, Dir: dir, Apart: busOnly})
	if err != nil {
		return nil, err
	}
	w := &world{f}
	start := f.Start
	if busOnly {
		start = f.StartBus
	}
	if err := start(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// oneServer starts everything, with one server that is online. The first of the versions
// of beacon, when there are any, is on it.
func oneServer(ctx context.Context, s settings, of ...sample.Version) (*world, *fleet.Server, error) {
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, nil, err
	}
	server, err := w.oneServer(ctx, of)
	if err != nil {
		return nil, nil, errors.Join(err, w.close())
	}
	return w, server, nil
}

func (w *world) oneServer(ctx context.Context, of []sample.Version) (*fleet.Server, error) {
	server, err := w.AddServer(ctx, "alpha")
	if err != nil {
		return nil, err
	}
	if err := waitOnline(ctx, w, 1); err != nil || len(of) == 0 {
		return server, err
	}
	if err := versions(ctx, w, of...); err != nil {
		return nil, err
	}
	_, err = w.CLI(ctx, "install", sample.Agent+"@"+of[0].Version, "--on", server.Name)
	return server, err
}

// startLimit bounds the start of a service: its ledger may be large.
const startLimit = 30 * time.Minute

// begin starts a service in a process of its own, and waits until it answers.
func (w *world) begin(ctx context.Context, service string, args ...string) error {
	if err := w.StartService(service, args...); err != nil {
		return err
	}
	conn, err := w.operator()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err := bus.Call[*apiv1.AboutResponse](once, conn, service, about, &apiv1.AboutRequest{})
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait until %s answers: %w", service, errors.Join(ctx.Err(), err))
		}
	}
}

func (w *world) close() error { return errors.Join(w.Close(), os.RemoveAll(w.Dir)) }

func (w *world) credentials(service string) string {
	return filepath.Join(w.Dir, "data", "trust", "services", service+".creds")
}

// service connects as a service, through package bus.
func (w *world) service(name string) (*bus.Conn, error) {
	return bus.Dial(bus.Options{
		URL:         w.URL(),
		Name:        name,
		API:         topology.APIOf(name),
		Credentials: trust.ReadCredentials(w.credentials(name)),
		Log:         zerolog.Nop(),
	})
}

// raw connects as a service, without package bus.
func (w *world) raw(name string) (*nats.Conn, error) {
	return nats.Connect(w.URL(), nats.UserCredentials(w.credentials(name)),
		nats.CustomInboxPrefix(topology.Inbox(name)), nats.Timeout(loginWithin))
}

// operator connects as the first operator.
func (w *world) operator() (*bus.Conn, error) {
	c, err := trust.ReadContext(w.ContextFile())
	if err != nil {
		return nil, err
	}
	return bus.Dial(
		bus.Options{
			URL: c.URL, Name: c.Actor, TLS: bus.TLSOf(c), Credentials: c.Credentials,
			Log: zerolog.Nop(),
		})
}
