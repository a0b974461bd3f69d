package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

func TestTheViewOverTheBusIsThatOfAFreshFold(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.upload(s)
	c.activate(s.Id, "")
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods()
	live, err := bus.Call[*apiv1.ViewResponse](t.Context(), c.conn, ledger.Catalog, about.ByName("View"),
		&apiv1.ViewRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := view.New()
	options := fold.Options{Service: ledger.Catalog, Layout: view.Layout, Nouns: view.Nouns}
	if _, err := fold.RebuildTo(t.Context(), c.conn, fresh, options, live.Position); err != nil {
		t.Fatal(err)
	}
	encoding, err := fold.CanonicalOf(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(live.Canonical, encoding); d != "" {
		t.Fatal(d)
	}
	r, err := bus.Call[*apiv1.AboutResponse](t.Context(), c.conn, ledger.Catalog, about.ByName("About"),
		&apiv1.AboutRequest{})
	if err != nil || r.Misfits != 0 {
		t.Fatal(r, err)
	}
}

func TestFactsNameTheCallerAndTheRequest(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	run(t, b)
	c := newClient(t, b)
	s := newSample("a", "1.0.0", "s", 100)
	c.create(s.Manifest)
	m, err := c.conn.DirectGet(t.Context(), topology.Ledger,
		ledger.Fact{Noun: ledger.Image, Key: s.Id, Body: &imagev1.Created{}}.Subject())
	if err != nil {
		t.Fatal(err)
	}
	f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
	if err != nil || f.Actor != "ada" || f.Source != ledger.Catalog || f.Request == "" ||
		f.Cause != ledger.CausedByRequest(f.Request) {
		t.Fatalf("%+v (%v)", f, err)
	}
}
