package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/advisory"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/topology"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/exposure"
)

// The bounds of advisories. 512 parts of 256 KiB are the advisories of all large ecosystems but those of malware.
const (
	maxAdvisorySources = 16
	maxAdvisoryParts   = 512 // of all sources
	maxAdvisoryPart    = 900 << 10
	staleUpload        = time.Hour // an upload that has not ended by then is dropped by the next one
)

// advisories are the advisories in the stream BLOBS, beside the content of images. The parts of an upload count once
// all are stored; of several uploads of a source, the last one does. So an import that stops halfway changes nothing,
// and replicas need no fact: each reads the stream again when the list of parts is another.
type advisories struct {
	conn *bus.Conn
	now  func() time.Time

	mu      sync.Mutex
	read    []string // the subjects that known was read from
	uploads map[upload]exposure.Upload
	known   *exposure.Advisories
}

// upload is one import of a source.
type upload struct {
	source string
	id     uint64
	parts  int
}

func newAdvisories(conn *bus.Conn, now func() time.Time) *advisories {
	return &advisories{conn: conn, now: now, known: exposure.NewAdvisories(nil)}
}

// stored returns the parts in the stream, by their uploads, and their subjects, sorted.
func (a *advisories) stored(ctx context.Context) (map[upload]map[int]string, []string, error) {
	subjects, err := a.conn.Subjects(ctx, topology.Blobs, topology.AdvisorySubjects)
	if err != nil {
		return nil, nil, fmt.Errorf("list stored advisories: %w", err)
	}
	slices.Sort(subjects)
	uploads := map[upload]map[int]string{}
	for _, s := range subjects {
		p, err := topology.ParseAdvisorySubject(s)
		if err != nil {
			continue // of a later version
		}
		u := upload{p.Source, p.Upload, p.Parts}
		if uploads[u] == nil {
			uploads[u] = map[int]string{}
		}
		uploads[u][p.Part] = s
	}
	return uploads, subjects, nil
}

// last returns the last upload of each source that is complete.
func last(uploads map[upload]map[int]string) map[string]upload {
	out := map[string]upload{}
	for u, parts := range uploads {
		if len(parts) == u.parts && u.id > out[u.source].id {
			out[u.source] = u
		}
	}
	return out
}

// loadTries is how often the advisories are read again because an import replaced them meanwhile.
const loadTries = 3

// load returns the advisories. It reads those that were imported since the last time.
func (a *advisories) load(ctx context.Context) (*exposure.Advisories, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for try := 1; ; try++ {
		known, err := a.loadOnce(ctx)
		if !fault.Is(err, fault.NotFound) || try == loadTries {
			return known, err
		}
	}
}

func (a *advisories) loadOnce(ctx context.Context) (*exposure.Advisories, error) {
	uploads, subjects, err := a.stored(ctx)
	if err != nil || slices.Equal(subjects, a.read) {
		return a.known, err
	}
	next := map[upload]exposure.Upload{}
	for _, u := range last(uploads) {
		have, ok := a.uploads[u]
		if !ok {
			if have, err = a.readUpload(ctx, u, uploads[u]); err != nil {
				return nil, err
			}
		}
		next[u] = have
	}
	a.read, a.uploads = subjects, next
	a.known = exposure.NewAdvisories(slices.Collect(maps.Values(next)))
	return a.known, nil
}

// readUpload reads an upload, part by part.
func (a *advisories) readUpload(ctx context.Context, u upload, parts map[int]string) (exposure.Upload, error) {
	up := exposure.Upload{Source: &catalogv1.AdvisorySource{
		Name: u.source, ImportedAt: timestamppb.New(time.Unix(0, int64(u.id))),
	}}
	for n := range u.parts {
		m, err := a.conn.DirectGet(ctx, topology.Blobs, parts[n])
		if err != nil {
			return up, fmt.Errorf("read advisories of %s: %w", u.source, err)
		}
		q := &catalogv1.ImportAdvisoriesRequest{}
		if err := bus.Unmarshal(m, q); err != nil {
			return up, fmt.Errorf("read advisories of %s: %w", u.source, err)
		}
		up.Advisories = append(up.Advisories, q.Advisories...)
	}
	up.Source.Advisories = uint32(len(up.Advisories))
	return up, nil
}

// importPart stores a part. It is safe to run twice: a part that is stored stays as it is.
func (a *advisories) importPart(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.ImportAdvisoriesRequest,
) (*catalogv1.ImportAdvisoriesResponse, error) {
	if err := checkPart(q); err != nil {
		return nil, err
	}
	uploads, _, err := a.stored(ctx)
	if err != nil {
		return nil, err
	}
	u := upload{q.Source, uint64(a.now().UnixNano()), int(q.Parts)}
	if q.Upload == "" {
		err = a.begin(ctx, u, uploads)
	} else {
		u.id, err = uploadOf(q.Upload)
	}
	if err != nil {
		return nil, err
	}
	part := topology.AdvisoryPart{Upload: u.id, Part: int(q.Part), Parts: u.parts, Source: u.source}
	data, err := proto.Marshal(&catalogv1.ImportAdvisoriesRequest{Advisories: q.Advisories})
	if err != nil {
		return nil, err
	}
	_, err = a.conn.PublishDurable(ctx, bus.Durable{Subject: part.Subject(), Data: data})
	if err != nil && !fault.Is(err, fault.Conflict) {
		return nil, err
	}
	r := &catalogv1.ImportAdvisoriesResponse{Upload: fmt.Sprint(u.id)}
	if part.Part == part.Parts-1 {
		r.Source, err = a.end(ctx, u)
	}
	return r, err
}

// checkPart refuses a part that cannot be one.
func checkPart(q *catalogv1.ImportAdvisoriesRequest) error {
	if err := ident.CheckName("source", q.Source); err != nil {
		return refuse(fault.Invalid, code.BadAdvisory, "%v", err)
	}
	switch size := proto.Size(q); {
	case q.Parts == 0 || q.Part >= q.Parts || (q.Part == 0) != (q.Upload == ""):
		return refuse(fault.Invalid, code.Malformed, "upload %.40q cannot have a part %d of %d", q.Upload, q.Part,
			q.Parts)
	case size > maxAdvisoryPart:
		return refuse(fault.Invalid, code.BadAdvisory, "a part has %d bytes, want at most %d", size, maxAdvisoryPart)
	case len(q.Advisories) > advisory.MaxRecords:
		return refuse(fault.Invalid, code.BadAdvisory, "a part has more than %d advisories", advisory.MaxRecords)
	}
	for i, one := range q.Advisories {
		if one.GetId() == "" || len(one.GetAffected()) == 0 {
			return refuse(fault.Invalid, code.BadAdvisory, "advisories[%d] has no id or affects no package", i)
		}
	}
	return nil
}

func uploadOf(text string) (id uint64, err error) {
	if _, err = fmt.Sscan(text, &id); err != nil || fmt.Sprint(id) != text {
		return 0, refuse(fault.Invalid, code.Malformed, "%.40q is no upload", text)
	}
	return id, nil
}

// begin refuses an upload for which there is no room, and drops what uploads of its source left that never ended.
func (a *advisories) begin(ctx context.Context, u upload, uploads map[upload]map[int]string) error {
	complete := last(uploads)
	delete(complete, u.source)
	parts := u.parts
	for _, other := range complete {
		parts += other.parts
	}
	if len(complete) >= maxAdvisorySources || parts > maxAdvisoryParts {
		return refuse(fault.Invalid, code.BadAdvisory, "there is no room for the %d parts of source %s: %d sources of "+
			"%d parts together are the most; import fewer advisories", u.parts, u.source,
			maxAdvisorySources, maxAdvisoryParts)
	}
	for other, parts := range uploads {
		age := time.Duration(u.id - other.id)
		if other.source == u.source && len(parts) < other.parts && age > staleUpload {
			if err := a.drop(ctx, parts); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *advisories) drop(ctx context.Context, parts map[int]string) error {
	for _, subject := range parts {
		if err := a.conn.Purge(ctx, topology.Blobs, subject); err != nil {
			return err
		}
	}
	return nil
}

// end returns the source after the last part of an upload, and drops what it replaces.
func (a *advisories) end(ctx context.Context, u upload) (*catalogv1.AdvisorySource, error) {
	uploads, _, err := a.stored(ctx)
	if err != nil {
		return nil, err
	}
	if have := len(uploads[u]); have < u.parts {
		return nil, refuse(fault.Conflict, code.Incomplete, "the upload has %d of %d parts; import the file again",
			have, u.parts)
	}
	if last(uploads)[u.source] != u {
		return nil, refuse(fault.Conflict, code.Conflict, "another import of source %s came after this one", u.source)
	}
	for other, parts := range uploads {
		if other.source == u.source && other.id < u.id {
			if err := a.drop(ctx, parts); err != nil {
				return nil, err
			}
		}
	}
	known, err := a.load(ctx)
	return known.Source(u.source), err
}

// list lists the sources by name.
func (a *advisories) list(
	ctx context.Context,
	_ bus.Caller,
	q *catalogv1.ListAdvisoriesRequest,
) (*catalogv1.ListAdvisoriesResponse, error) {
	after, err := page.After(q)
	if err != nil {
		return nil, err
	}
	known, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	part := page.Take(func(yield func(string, *catalogv1.AdvisorySource) bool) {
		for _, s := range known.Sources() {
			if s.Name > after && !yield(s.Name, s) {
				return
			}
		}
	}, limitOf(q.Page, maxAdvisorySources))
	return &catalogv1.ListAdvisoriesResponse{Sources: part.Rows, NextCursor: page.Cursor(q, part.Next)}, nil
}
