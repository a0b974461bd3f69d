package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/exposure"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

const (
	// readAgainEvery is how often an SBOM that could not be read is tried again.
	readAgainEvery = time.Minute
	// readSBOMWithin bounds the reading of one SBOM: of a few chunks, as it comes first in an image.
	readSBOMWithin = 30 * time.Second
)

// exposed answers which images contain a vulnerable package. It reads the SBOMs of images from their content, one
// after another, and keeps their components in memory: they are read again at each start, and no fact has them. An
// image whose content cannot be read is counted as such in each answer, and is tried again every minute.
type exposed struct {
	conn       *bus.Conn
	log        zerolog.Logger
	view       *view.View
	follower   *fold.Follower
	advisories *advisories
	wake       wakeup.Signal

	mu     sync.RWMutex
	index  *exposure.Index
	failed map[string]bool // digests, until the next try
}

func newExposed(cfg Config, v *view.View, f *fold.Follower) *exposed {
	return &exposed{
		conn: cfg.Conn, log: cfg.Log, view: v, follower: f, advisories: newAdvisories(cfg.Conn, cfg.Now),
		wake: wakeup.New(), index: exposure.NewIndex(), failed: map[string]bool{},
	}
}

func (e *exposed) noteFacts(facts []ledger.Fact) {
	if slices.ContainsFunc(facts, func(f ledger.Fact) bool { return f.Noun == ledger.Image }) {
		e.wake.Wake()
	}
}

// run keeps the index up to date until ctx is done.
func (e *exposed) run(ctx context.Context) error {
	tick := time.NewTicker(readAgainEvery)
	defer tick.Stop()
	for {
		e.update(ctx)
		select {
		case <-e.wake.C():
		case <-tick.C:
			e.mu.Lock()
			maps.DeleteFunc(e.failed, func(_ string, forGood bool) bool { return !forGood })
			e.mu.Unlock()
		case <-ctx.Done():
			return nil
		}
	}
}

// update reads what the index lacks, and drops what no image has.
func (e *exposed) update(ctx context.Context) {
	blobs := map[string]*imagev1.Blob{}
	e.follower.Read(func() {
		for i := range e.view.Filled() {
			blobs[string(i.Manifest.Blob.Digest)] = i.Manifest.Blob
		}
	})
	e.mu.Lock()
	present := make(map[string]bool, len(blobs))
	for digest := range blobs {
		present[digest] = true
		_, failed := e.failed[digest]
		if known, _ := e.index.Known(digest); known || failed {
			delete(blobs, digest)
		}
	}
	e.index.Keep(present)
	maps.DeleteFunc(e.failed, func(digest string, _ bool) bool { return !present[digest] })
	e.mu.Unlock()
	for _, b := range blobs {
		if ctx.Err() != nil {
			return
		}
		if err := e.add(ctx, b); err != nil {
			e.log.Warn().Err(err).Hex("digest", b.Digest).Msg("SBOM cannot be read")
		}
	}
}

// add reads the SBOM of an image and adds it to the index.
func (e *exposed) add(ctx context.Context, b *imagev1.Blob) error {
	ctx, cancel := context.WithTimeout(ctx, readSBOMWithin)
	defer cancel()
	components, hasSBOM, err := image.Components(b, func(n int) ([]byte, error) {
		return storedChunk(ctx, e.conn, b, n)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && !e.index.Put(string(b.Digest), components, hasSBOM) {
		err = fmt.Errorf("the components of all images are more than %d", exposure.MaxHeld)
	}
	if err != nil {
		e.failed[string(b.Digest)] = fault.RefusalOf(err).GetCode() == code.BadSbom
	}
	return err
}

// check refuses content whose SBOM cannot be used, before the image is activated. What else is wrong with content,
// content.verify refuses.
func (e *exposed) check(ctx context.Context, b *imagev1.Blob) error {
	if err := e.add(ctx, b); fault.RefusalOf(err).GetCode() == code.BadSbom {
		return err
	}
	return nil
}

// list finds the images that contain what is asked for.
func (e *exposed) list(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.ListExposedRequest,
) (*catalogv1.ListExposedResponse, error) {
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	known, err := e.advisories.load(ctx)
	if err != nil {
		return nil, err
	}
	r := &catalogv1.ListExposedResponse{}
	var queries []exposure.Query
	if r.Advisories, queries, err = known.Ask(q.Subject); err != nil {
		return nil, err
	}
	images := e.images()
	e.fill(r, images, queries)
	start, err := strconv.ParseUint(cmp.Or(after, "0"), 10, 31) // written below; a caller may pass another one
	if err != nil {
		return nil, fault.Refusef(fault.Invalid, code.Invalid, "invalid cursor %.80q", after)
	}
	part := page.Take(func(yield func(string, *catalogv1.Exposed) bool) {
		for n := int(start); n < len(r.Exposed) && yield(strconv.Itoa(n+1), r.Exposed[n]); n++ {
		}
	}, limitOf(q.Page, maxExposedRows))
	r.Advisories = brief(r.Advisories)
	r.Exposed, r.NextCursor, r.LeftOut = part.Rows, page.Cursor(q, part.Next), part.LeftOut
	return r, nil
}

func (e *exposed) fill(r *catalogv1.ListExposedResponse, images []exposure.Image, queries []exposure.Query) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	e.index.Fill(r, images, queries)
}

// maxExposedRows is how many rows one answer has at most.
const maxExposedRows = 1000

// limitOf returns how many rows are asked for, most at most.
func limitOf(p *apiv1.Page, most int) int {
	if n := int(p.GetLimit()); n > 0 {
		return min(n, most)
	}
	return most
}

// brief returns advisories without the packages that they affect, which may be thousands.
func brief(all []*catalogv1.Advisory) (out []*catalogv1.Advisory) {
	for _, a := range all[:min(len(all), maxNamed)] {
		out = append(out, &catalogv1.Advisory{
			Id: a.Id, Aliases: a.Aliases, Summary: a.Summary, Severity: a.Severity,
		})
	}
	return out
}

// maxNamed is how many advisories of one id an answer names; a CVE of a distribution has one for each release.
const maxNamed = 20

// images returns the images whose content is whole, in the order of agents and versions.
func (e *exposed) images() (out []exposure.Image) {
	e.follower.Read(func() {
		for i, channels := range e.view.Filled() {
			m := i.Manifest
			out = append(out, exposure.Image{
				ID: m.Id, Agent: m.Agent, Version: m.Version, Digest: string(m.Blob.Digest), Platform: m.Platform,
				State: i.State, Channels: slices.Clone(channels),
			})
		}
	})
	return out
}
