package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

const (
	// bareDocument and bareReport are the bytes of a message without content: about those of a server with one agent.
	bareDocument, bareReport = 1200, 300
	// barePublished is how many documents are on their way at once.
	barePublished = 1024
)

// bareReports are the kinds of the reports of one task, in the order in which a server stores them.
var bareReports = []string{topology.ReportTask, topology.ReportAgents, topology.ReportTask}

// bareRound is what the messages of one change of all servers cost the bus, without Garrison.
type bareRound struct{ seconds, cpu float64 }

// bareServer is a client that takes its document from its bell, and stores reports.
type bareServer struct {
	nc      *nats.Conn
	address topology.ServerAddress
}

// bareRounds measures the messages of a change on a bus without services, with a connection for each server: a document
// stored, its bell, which carries it, and the reports stored, one after another.
func bareRounds(ctx context.Context, s settings, n int) (out []bareRound, err error) {
	w, err := newWorld(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	conn, err := w.anyone()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, stream := range []string{topology.Desired, topology.Reports} {
		if err := conn.WaitStream(ctx, stream); err != nil {
			return nil, err
		}
	}
	b := &bareFleet{ended: make(chan error, n)}
	defer b.close()
	if err := b.connect(w, n); err != nil {
		return nil, err
	}
	publisher, err := unlimited(w, topology.AccountCore)
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	for range fleetRounds {
		r, err := b.round(ctx, w, publisher)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

type bareFleet struct {
	servers []*bareServer
	ended   chan error // receives when a server has stored its last report
}

func (b *bareFleet) close() {
	for _, s := range b.servers {
		s.nc.Close()
	}
}

// connect connects n servers, several at once.
func (b *bareFleet) connect(w *world, n int) error {
	signer, err := trust.OpenSigner(filepath.Join(w.DataDir(), "trust", "signer"))
	if err != nil {
		return err
	}
	b.servers, err = many(n, func() (*bareServer, error) { return b.server(w.URL(), signer) })
	return err
}

// server connects a server and has it work at each bell.
func (b *bareFleet) server(url string, signer *trust.Signer) (*bareServer, error) {
	id := ident.New()
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return nil, err
	}
	jwt, err := signer.Server(public, id, topology.DefaultCell, time.Now().Add(time.Hour))
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url, nats.UserJWTAndSeed(jwt, string(seed)),
		nats.CustomInboxPrefix(topology.Inbox(id)), nats.Timeout(time.Minute))
	if err != nil {
		return nil, err
	}
	s := &bareServer{nc: nc, address: topology.ServerAddress{Cell: topology.DefaultCell, Server: id}}
	_, err = nc.Subscribe(topology.BellSubject(s.address), func(*nats.Msg) { b.ended <- s.work() })
	return s, errors.Join(err, nc.Flush())
}

// work stores the reports.
func (s *bareServer) work() error {
	for _, kind := range bareReports {
		if _, err := s.nc.Request(topology.ReportSubject(s.address, kind), make([]byte, bareReport),
			time.Minute); err != nil {
			return fmt.Errorf("store report: %w", err)
		}
	}
	return nil
}

// round stores a document for each server and waits until each has stored its reports.
func (b *bareFleet) round(ctx context.Context, w *world, publisher *nats.Conn) (r bareRound, err error) {
	js, err := publisher.JetStream(nats.PublishAsyncMaxPending(barePublished))
	if err != nil {
		return r, err
	}
	document := make([]byte, bareDocument)
	_, _ = rand.Read(document)
	before, err := rig.Uses(w.Garrisond.Pid())
	if err != nil {
		return r, err
	}
	began := time.Now()
	for _, s := range b.servers {
		_, err := js.PublishAsync(topology.DesiredSubject(s.address), document, nats.StallWait(time.Minute))
		if err != nil {
			return r, err
		}
	}
	for range b.servers {
		select {
		case err := <-b.ended:
			if err != nil {
				return r, err
			}
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	r.seconds = time.Since(began).Seconds()
	after, err := rig.Uses(w.Garrisond.Pid())
	r.cpu = (after.CPU - before.CPU).Seconds()
	return r, err
}
