package view

import (
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/seal"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

func limitOf(p *apiv1.Page) int {
	if n := int(p.GetLimit()); n > 0 {
		return min(n, maxLimit)
	}
	return defaultLimit
}

// lister lists images and channels, a part at a time.
type lister struct{ *finder }

// List returns one part of the images, by agent, version and id, without chunk digests. It scans the
// narrowest index that the filters allow. A trusted image is one that one of keys signed.
func (l *lister) List(q *catalogv1.ListImagesRequest, keys ...string) (part page.Part[*imagev1.Image], err error) {
	from, err := start(q)
	if err != nil {
		return part, err
	}
	if q.Channel != "" {
		if _, ok := l.channels.Get(q.Channel); !ok {
			return part, l.noChannel(q.Channel)
		}
	}
	part = page.Take(l.listed(q, from, keys), limitOf(q.Page))
	for _, row := range part.LeftOut {
		at, _ := readCursor(row.Id, 3) // written above
		row.Id = at[2]
	}
	return part, nil
}

// orderFor returns the images in order, from the narrowest index; nil when it is empty.
func (l *lister) orderFor(q *catalogv1.ListImagesRequest) *ordered {
	switch {
	case q.Channel != "":
		return l.index.byChannel[q.Channel]
	case q.State != imagev1.State_STATE_UNSPECIFIED:
		return l.index.byState[q.State]
	}
	return l.index.all
}

// listed returns the images after an entry that pass the filters, by their cursors.
func (l *lister) listed(q *catalogv1.ListImagesRequest, after entry, keys []string) iter.Seq2[string, *imagev1.Image] {
	return func(yield func(string, *imagev1.Image) bool) {
		o := l.orderFor(q)
		if o == nil {
			return
		}
		o.Ascend(after, func(e entry) bool {
			if q.Agent != "" && e.agent != q.Agent {
				return false
			}
			i, ok := l.images.Get(e.id)
			if !ok || compare(e, after) == 0 || q.State != imagev1.State_STATE_UNSPECIFIED && i.State != q.State {
				return true
			}
			if q.Untrusted && (len(keys) == 0 || seal.Names(i.Manifest, keys)) { // it was checked when it came
				return true
			}
			return yield(cursorOf(e), l.row(i))
		})
	}
}

// Filled returns the images whose content is whole, with their channels, by agent, version and id. The caller must
// change neither.
func (l *lister) Filled() iter.Seq2[*imagev1.Image, []string] {
	return func(yield func(*imagev1.Image, []string) bool) {
		l.index.all.Scan(func(e entry) bool {
			i, ok := l.images.Get(e.id)
			return !ok || !i.Filled || yield(i, l.index.channelsOf(e.id))
		})
	}
}

// row returns an image without its chunk digests.
func (l *lister) row(i *imagev1.Image) *imagev1.Image {
	m, b := i.Manifest, i.Manifest.GetBlob()
	return l.with(i, &imagev1.Manifest{
		Id: m.Id, Agent: m.Agent, Version: m.Version, Kind: m.Kind, Platform: m.Platform, Run: m.Run,
		PublishedAt: m.PublishedAt, Tags: m.Tags, Description: m.Description,
		Blob: &imagev1.Blob{
			Digest: b.GetDigest(), SizeBytes: b.GetSizeBytes(), ChunkSizeBytes: b.GetChunkSizeBytes(),
			UnpackedSizeBytes: b.GetUnpackedSizeBytes(), Entries: b.GetEntries(),
		},
	})
}

// Channels returns one part of the channels, by name.
func (l *lister) Channels(p *apiv1.Page) (page.Part[*channelv1.Channel], error) {
	return byName(l.channels, p)
}

// byName returns one part of a short table, by key.
func byName[T proto.Message](table *fold.Table[T], p *apiv1.Page) (part page.Part[T], err error) {
	after, err := readCursor(p.GetCursor(), 1)
	if err != nil {
		return part, err
	}
	var names []string
	for name := range table.All() {
		if p.GetCursor() == "" || name > after[0] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	part = page.Take(func(yield func(string, T) bool) {
		for _, name := range names {
			if r, _ := table.Get(name); !yield(name, proto.CloneOf(r)) {
				return
			}
		}
	}, limitOf(p))
	if part.Next != "" {
		part.Next = writeCursor(part.Next)
	}
	return part, nil
}

// start returns the position from which a page is listed.
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
		return nil, refuse(fault.Invalid, code.Invalid, "invalid cursor %.80q: pass next_cursor of an answer", s)
	}
	return t, nil
}
