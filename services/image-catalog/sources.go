package catalog

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/decision"
)

// sources answers requests about sources.
type sources struct{ catalog *Catalog }

func (s sources) list(
	_ context.Context,
	_ bus.Caller,
	q *catalogv1.ListSourcesRequest,
) (r *catalogv1.ListSourcesResponse, err error) {
	s.catalog.follower.Read(func() {
		part, e := s.catalog.view.Sources.List(q.Page)
		r, err = &catalogv1.ListSourcesResponse{Sources: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut}, e
	})
	return r, err
}

// add is safe to run twice: what holds already stays as it is.
func (s sources) add(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.AddSourceRequest,
) (*catalogv1.AddSourceResponse, error) {
	if err := checkPlace(q.Location); err != nil {
		return nil, refuse(fault.Invalid, code.BadSource, "source %.80q: %v", q.Name, err)
	}
	add := func() ([]ledger.Draft, error) {
		return decision.AddSource(&s.catalog.view.Sources, q.Name, q.Location, q.Keys)
	}
	if err := s.catalog.decide(ctx, caller, add); err != nil {
		return nil, err
	}
	found, err := s.find(ctx, q.Name)
	return &catalogv1.AddSourceResponse{Source: found}, err
}

// recordSync run twice records the same once more.
func (s sources) recordSync(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.RecordSyncRequest,
) (*catalogv1.RecordSyncResponse, error) {
	record := func() ([]ledger.Draft, error) {
		return decision.RecordSync(&s.catalog.view.Sources, q.Name, q.Synced, s.catalog.cfg.Now())
	}
	if err := s.catalog.decide(ctx, caller, record); err != nil {
		return nil, err
	}
	found, err := s.find(ctx, q.Name)
	return &catalogv1.RecordSyncResponse{Source: found}, err
}

// remove also succeeds when another request removes the source meanwhile.
func (s sources) remove(
	ctx context.Context,
	caller bus.Caller,
	q *catalogv1.RemoveSourceRequest,
) (*catalogv1.RemoveSourceResponse, error) {
	if _, err := s.find(ctx, q.Name); err != nil {
		return nil, err
	}
	remove := func() ([]ledger.Draft, error) {
		return unlessGone(decision.RemoveSource(&s.catalog.view.Sources, q.Name))
	}
	return &catalogv1.RemoveSourceResponse{}, s.catalog.decide(ctx, caller, remove)
}

// find returns a source, or a refusal when it does not exist.
func (s sources) find(ctx context.Context, name string) (found *sourcev1.Source, err error) {
	err = s.catalog.decider.Query(ctx, func() (e error) { found, e = s.catalog.view.Sources.Find(name); return e })
	return found, err
}

// maxPlace bounds the text of a place, in bytes.
const maxPlace = 1024

// schemes are those of the URLs of sources; oci is a repository of a registry.
var schemes = []string{"http", "https", "oci"}

// checkPlace refuses what is neither such a URL nor an absolute path, and what a terminal would not print.
func checkPlace(text string) error {
	if len(text) > maxPlace {
		return fmt.Errorf("the place has %d bytes, want at most %d", len(text), maxPlace)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("the place %q has control characters", text)
	}
	if filepath.IsAbs(text) {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%q is neither a URL of http, https or oci without a password nor an absolute path", text)
	}
	return nil
}
