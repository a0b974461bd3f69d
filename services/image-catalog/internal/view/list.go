package view

import (
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	usualLimit = 100
	mostLimit  = 1000
	// mostBytes ends a part early, so that it fits into one message of the bus.
	mostBytes = 512 << 10
)

func limitOf(p *apiv1.Page) int {
	if n := int(p.GetLimit()); n > 0 {
		return min(n, mostLimit)
	}
	return usualLimit
}

// List gives one part of the images, by agent, version and id, without chunk digests,
// and the cursor of the next part. It starts from the index that fits the filters best.
func (v *View) List(q *catalogv1.ListImagesRequest) ([]*imagev1.Image, string, error) {
	from, err := start(q)
	if err != nil {
		return nil, "", err
	}
	if q.Channel != "" {
		if _, ok := v.channels.Get(q.Channel); !ok {
			return nil, "", v.noChannel(q.Channel)
		}
	}
	part := &page{limit: limitOf(q.Page), exclude: from}
	if o := v.orderFor(q); o != nil {
		o.Ascend(from, func(e entry) bool { return v.listed(part, q, e) })
	}
	return part.images, part.next, nil
}

type page struct {
	limit, bytes int
	exclude      entry // the last one of the previous part
	images       []*imagev1.Image
	last         entry
	next         string
}

// orderFor gives the images in order, from the narrowest index; nil when there are none.
func (v *View) orderFor(q *catalogv1.ListImagesRequest) *ordered {
	switch {
	case q.Channel != "":
		return v.index.byChannel[q.Channel]
	case q.State != imagev1.State_STATE_UNSPECIFIED:
		return v.index.byState[q.State]
	}
	return v.index.all
}

// listed adds an image to the part if it passes the filters, and says whether to go on.
func (v *View) listed(p *page, q *catalogv1.ListImagesRequest, e entry) bool {
	if q.Agent != "" && e.agent != q.Agent {
		return false
	}
	i, ok := v.images.Get(e.id)
	if !ok || compare(e, p.exclude) == 0 || (q.State != imagev1.State_STATE_UNSPECIFIED && i.State != q.State) {
		return true
	}
	if len(p.images) == p.limit || p.bytes > mostBytes {
		p.next = cursorOf(p.last)
		return false
	}
	row := v.row(i)
	p.images, p.last, p.bytes = append(p.images, row), e, p.bytes+proto.Size(row)
	return true
}

// row gives an image without its chunk digests.
func (v *View) row(i *imagev1.Image) *imagev1.Image {
	m, b := i.Manifest, i.Manifest.GetBlob()
	return v.with(i, &imagev1.Manifest{
		Id: m.Id, Agent: m.Agent, Version: m.Version, Kind: m.Kind, Platform: m.Platform, Run: m.Run,
		PublishedAt: m.PublishedAt, Tags: m.Tags, Description: m.Description,
		Blob: &imagev1.Blob{
			Digest: b.GetDigest(), SizeBytes: b.GetSizeBytes(), ChunkSizeBytes: b.GetChunkSizeBytes(),
			UnpackedSizeBytes: b.GetUnpackedSizeBytes(), Entries: b.GetEntries(),
		},
	})
}

// Channels gives one part of the channels, by name, and the cursor of the next.
func (v *View) Channels(p *apiv1.Page) ([]*channelv1.Channel, string, error) {
	after, err := readCursor(p.GetCursor(), 1)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for name := range v.channels.All() {
		if p.GetCursor() == "" || name > after[0] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []*channelv1.Channel
	size := 0
	for n, name := range names {
		if n == limitOf(p) || size > mostBytes {
			return out, writeCursor(names[n-1]), nil
		}
		c, _ := v.channels.Get(name)
		out, size = append(out, proto.CloneOf(c)), size+proto.Size(c)
	}
	return out, "", nil
}

// start gives the place from which a part is listed.
func start(q *catalogv1.ListImagesRequest) (entry, error) {
	if q.GetPage().GetCursor() == "" {
		return entry{agent: q.Agent}, nil
	}
	t, err := readCursor(q.Page.Cursor, 3)
	if err != nil {
		return entry{}, err
	}
	return entryOf(t[0], t[1], t[2]), nil
}

func cursorOf(e entry) string { return writeCursor(e.agent, e.raw, e.id) }

func writeCursor(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00")))
}

func readCursor(s string, parts int) ([]string, error) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	t := strings.Split(string(text), "\x00")
	if err != nil || len(t) != parts {
		return nil, refuse(fault.Invalid, "BAD_CURSOR", hint{}, "cursor %.80q is not one that an answer gave", s)
	}
	return t, nil
}
