package display

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// Image is an image as the catalog returns it.
type Image = *imagev1.Image

// Images lists images.
var Images = listing.Listing[Image]{
	Name: func(i Image) string { return i.GetManifest().GetId() },
	Columns: []listing.Column[Image]{
		{Title: "ID", Value: func(v listing.View, i Image) string {
			return listing.ShortID(v, i.GetManifest().GetId())
		}},
		listing.Col("AGENT", func(i Image) string { return i.GetManifest().GetAgent() }),
		listing.Col("VERSION", func(i Image) string { return i.GetManifest().GetVersion() }),
		listing.Col("PLATFORM", func(i Image) string { return Platform(i.GetManifest().GetPlatform()) }),
		listing.Col("CHANNELS", func(i Image) string { return strings.Join(i.GetChannels(), ",") }),
		listing.Col("STATE", func(i Image) string { return listing.Word(i.GetState()) }),
		listing.Since("SINCE", Image.GetSince),
		{Title: "NEXT", Value: imageNext},
		listing.Col("REASON", Image.GetReason),
		{Title: "SIZE", Value: func(_ listing.View, i Image) string {
			return listing.Size(i.GetManifest().GetBlob().GetSizeBytes())
		}, Key: func(i Image) string { return fmt.Sprint(i.GetManifest().GetBlob().GetSizeBytes()) }},
		listing.Wide("KIND", func(i Image) string { return listing.Word(i.GetManifest().GetKind()) }),
		listing.Wide("UNPACKED",
			func(i Image) string { return listing.Size(i.GetManifest().GetBlob().GetUnpackedSizeBytes()) }),
		listing.Wide("SIGNED BY", func(i Image) string { return Signers(i.GetManifest()) }),
		listing.Wide("PUBLISHED", func(i Image) string { return listing.Stamp(i.GetManifest().GetPublishedAt()) }),
		listing.Wide("DIGEST", func(i Image) string {
			return fmt.Sprintf("%x", i.GetManifest().GetBlob().GetDigest())
		}),
		listing.Wide("DESCRIPTION", func(i Image) string { return i.GetManifest().GetDescription() }),
	},
}

func imageNext(v listing.View, i Image) string {
	id := listing.ShortID(v, i.GetManifest().GetId())
	switch {
	case i.GetState() == imagev1.State_STATE_UNACTIVATED, i.GetState() == imagev1.State_STATE_DISABLED:
		return "garrison image activate " + id
	}
	return ""
}

// Signers returns the public keys that signed an image.
func Signers(m *imagev1.Manifest) string {
	var keys []string
	for _, s := range m.GetSeal().GetSignatures() {
		keys = append(keys, s.GetKey())
	}
	return strings.Join(keys, ", ")
}
