package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
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

// bareRound is what the messages of one change of all servers cost the bus, without Garrison.
type bareRound struct{ seconds, cpu float64 }

// bareServer is a client that takes its document from its bell, and stores a report.
type bareServer struct {
	nc      *nats.Conn
	address topology.ServerAddress
}

// bareRounds measures the messages of a change on a bus without services, with a connection for each server: a document
// stored, its bell, which carries it, and a report stored.
func bareRounds(b *testing.B, n int) (out []bareRound) {
	w := busOnly(b, rig.Options{})
	conn := w.anyone()
	for _, stream := range []string{topology.Desired, topology.Reports} {
		check(b, conn.WaitStream(b.Context(), stream))
	}
	f := &bareFleet{ended: make(chan error, n)}
	defer w.end()
	defer f.close()
	f.connect(b, w, n)
	publisher := w.unlimited(topology.AccountCore)
	for range fleetRounds {
		out = append(out, f.round(b, w, publisher))
	}
	return out
}

type bareFleet struct {
	servers []*bareServer
	ended   chan error // receives when a server has stored its report
}

func (f *bareFleet) close() {
	for _, s := range f.servers {
		s.nc.Close()
	}
}

// connect connects n servers, several at once.
func (f *bareFleet) connect(b *testing.B, w *world, n int) {
	signer := must(trust.OpenSigner(filepath.Join(w.DataDir(), "trust", "signer")))(b)
	f.servers = must(many(n, func() (*bareServer, error) { return f.server(w.URL(), signer) }))(b)
}

// server connects a server and has it work at each bell.
func (f *bareFleet) server(url string, signer *trust.Signer) (*bareServer, error) {
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
	_, err = nc.Subscribe(topology.BellSubject(s.address), func(*nats.Msg) { f.ended <- s.work() })
	return s, errors.Join(err, nc.Flush())
}

// work stores the report of a change.
func (s *bareServer) work() error {
	subject := topology.ReportSubject(s.address, topology.ReportTask)
	if _, err := s.nc.Request(subject, make([]byte, bareReport), time.Minute); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	return nil
}

// round stores a document for each server and waits until each has stored its report.
func (f *bareFleet) round(b *testing.B, w *world, publisher *nats.Conn) (r bareRound) {
	js := must(publisher.JetStream(nats.PublishAsyncMaxPending(barePublished)))(b)
	document := make([]byte, bareDocument)
	_, _ = rand.Read(document)
	before := must(rig.Uses(w.Garrisond.Pid()))(b)
	began := time.Now()
	for _, s := range f.servers {
		must(js.PublishAsync(topology.DesiredSubject(s.address), document, nats.StallWait(time.Minute)))(b)
	}
	for range f.servers {
		select {
		case err := <-f.ended:
			check(b, err)
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
	}
	r.seconds = time.Since(began).Seconds()
	r.cpu = (must(rig.Uses(w.Garrisond.Pid()))(b).CPU - before.CPU).Seconds()
	return r
}
