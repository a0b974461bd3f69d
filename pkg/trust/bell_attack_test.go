package trust_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A bell carries a document, and a service answers on the subject that its caller chose: a stolen key of the
// image-catalog and a hostile server must not reach another server's bell together.
func TestTheCatalogAndAServerPutNothingOnAnotherServersBell(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	victim := topology.ServerAddress{Cell: "main", Server: ident.New()}
	ear := g.Raw(t, victim.Server, victim.Cell)
	bell, err := ear.SubscribeSync(topology.BellSubject(victim))
	if err != nil {
		t.Fatal(err)
	}
	catalog, asked := g.RawService(t, topology.UserCatalog), make(chan struct{}, 1)
	_, err = catalog.Subscribe(topology.ChunkRequestSubjects, func(m *nats.Msg) {
		forged := &nats.Msg{Subject: m.Reply, Data: []byte("forged"), Header: nats.Header{
			"Nats-Subject": {topology.DesiredSubject(victim)}, "Nats-Sequence": {"999"},
		}}
		if m.Reply != "" {
			_ = catalog.PublishMsg(forged)
		}
		_ = catalog.Flush()
		asked <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	hostile := g.Raw(t, me.Server, me.Cell)
	for _, c := range []*nats.Conn{ear, catalog} {
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	request := topology.ChunkRequestSubject(topology.ChunkAddress{ServerAddress: me, Digest: strings.Repeat("0", 64)})
	if err := hostile.PublishRequest(request, topology.BellSubject(victim), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the request did not reach the catalog")
	}
	if m, err := bell.NextMsg(300 * time.Millisecond); err == nil {
		t.Errorf("the bell rang with %q", m.Data)
	}
}
