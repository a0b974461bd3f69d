package source

import (
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/version"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

type listed = *sourcev1.Listed

// The files of a source, and their bounds.
const (
	indexName   = "index.json"
	imagesDir   = "images"
	maxIndex    = 16 << 20
	maxListed   = 20_000
	maxFile     = manifest.MaxSize + 4<<20 // the blob, its manifest, and the padding of the archive
	digestBytes = 32
	maxAhead    = 10 * time.Minute // of the clock of who publishes
	indexWithin = 2 * time.Minute  // in all, however slowly the bytes come
	leastRate   = 16 << 10         // bytes a second of an image, beyond a minute
)

// fileName returns the name of an image file of a source.
func fileName(l listed) string {
	return imagesDir + "/" + hex.EncodeToString(l.GetFileDigest()) + image.Extension
}

// readIndex reads the index of a source. It refuses one that none of the source's keys signed, that has expired, or
// that is older than the one that was taken last.
func readIndex(ctx context.Context, at place, s source, now time.Time) (*sourcev1.Index, error) {
	ctx, cancel := context.WithTimeout(ctx, indexWithin)
	defer cancel()
	body, _, err := at.open(ctx, indexName, 0)
	if err != nil {
		return nil, unusable("source %s: %s", s.GetName(), fault.RefusalOf(err).GetMessage()).
			Try("garrison source add " + s.GetName() + " URL|DIR --key KEY")
	}
	defer func() { _ = body.Close() }()
	_, index, err := verify(body, s)
	if err != nil {
		return nil, err
	}
	return index, checkIndex(index, s, now)
}

// verify reads an index that one of the source's keys signed.
func verify(body io.Reader, s source) (*sourcev1.SignedIndex, *sourcev1.Index, error) {
	data, err := io.ReadAll(io.LimitReader(body, maxIndex+1))
	switch {
	case err != nil:
		return nil, nil, unusable("source %s: %s ends after %d bytes: %v", s.GetName(), indexName, len(data), err)
	case len(data) > maxIndex:
		return nil, nil, fault.Refusef(fault.Invalid, code.TooLarge, "source %s: %s has more than %d bytes",
			s.GetName(), indexName, maxIndex)
	}
	signed, index := &sourcev1.SignedIndex{}, &sourcev1.Index{}
	if err := protojson.Unmarshal(data, signed); err != nil {
		return nil, nil, unusable("source %s: %s is not an index: %v", s.GetName(), indexName, err)
	}
	if err := seal.CheckIndex(signed, s.GetKeys()); err != nil {
		return nil, nil, err
	}
	if err := protojson.Unmarshal(signed.GetIndex(), index); err != nil {
		return nil, nil, unusable("source %s: the signed index cannot be read: %v", s.GetName(), err)
	}
	return signed, index, checkListed(index, s)
}

func checkListed(i *sourcev1.Index, s source) error {
	for _, l := range i.GetImages() {
		if !ident.IsUUID(l.GetImageId()) || len(l.GetFileDigest()) != digestBytes || l.GetSizeBytes() == 0 ||
			l.GetSizeBytes() > maxFile {
			return unusable("source %s: the index lists %.80q without an id, a digest or a size of an image",
				s.GetName(), l.GetAgent()+"@"+l.GetVersion())
		}
	}
	return nil
}

func checkIndex(i *sourcev1.Index, s source, now time.Time) error {
	published, expires := i.GetPublishedAt(), i.GetExpiresAt()
	if !published.IsValid() || !expires.IsValid() || len(i.GetImages()) > maxListed {
		return unusable("source %s: the index has no valid times, or more than %d images", s.GetName(), maxListed)
	}
	if !now.Before(expires.AsTime()) {
		return fault.Refusef(fault.Invalid, code.SourceExpired, "the index of source %s expired at %s", s.GetName(),
			expires.AsTime().Format(time.RFC3339)).Try("where it is published: garrison source publish DIR --key FILE")
	}
	if published.AsTime().After(now.Add(maxAhead)) {
		return unusable("the index of source %s was published at %s, in the future", s.GetName(),
			published.AsTime().Format(time.RFC3339))
	}
	if last := s.GetLast().GetPublishedAt(); last != nil && published.AsTime().Before(last.AsTime()) {
		return unusable("the index of source %s was published at %s, before the one that was taken last, of %s",
			s.GetName(), published.AsTime().Format(time.RFC3339), last.AsTime().Format(time.RFC3339))
	}
	return nil
}

// choose returns the images of a channel, and of each agent and platform the highest versions only; "" means every
// channel, 0 every version. The lowest come first, as they were published.
func choose(all []listed, channel string, keep int) (out []listed) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b listed) int { return version.Compare(b.GetVersion(), a.GetVersion()) })
	count := map[string]int{}
	for _, l := range all {
		of := l.GetAgent() + " " + l.GetPlatform().GetOs() + "/" + l.GetPlatform().GetArch()
		if channel != "" && !slices.Contains(l.GetChannels(), channel) || keep > 0 && count[of] == keep {
			continue
		}
		count[of]++
		out = append(out, l)
	}
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b listed) int { return cmp.Compare(a.GetAgent(), b.GetAgent()) })
	return out
}
