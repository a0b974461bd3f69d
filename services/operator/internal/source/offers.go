package source

import (
	"encoding/json"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// offer is an image of a source, and the one of the catalog; nil where it lacks the image or a part of it.
type offer struct {
	of listed
	in *imagev1.Image
}

func (o offer) here() bool { return o.in != nil }

// MarshalJSON returns the image as the index lists it, and whether the catalog has it.
func (o offer) MarshalJSON() ([]byte, error) {
	data, err := output.Encode(o.of)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["inCatalog"] = o.here()
	return json.Marshal(fields)
}

// offers lists the images of a source, and images those that are published.
var (
	offers = listing.Listing[offer]{
		Name: func(o offer) string { return o.of.GetImageId() },
		Columns: append(imageColumns(func(o offer) listed { return o.of }),
			listing.Col("CATALOG", func(o offer) string { return listing.Yes(o.here()) })),
	}
	images = listing.Listing[listed]{
		Name: listed.GetImageId, Columns: imageColumns(func(l listed) listed { return l }),
	}
)

func imageColumns[T any](of func(T) listed) []listing.Column[T] {
	return []listing.Column[T]{
		{Title: "ID", Value: func(v listing.View, t T) string { return listing.ShortID(v, of(t).GetImageId()) }},
		listing.Col("AGENT", func(t T) string { return of(t).GetAgent() }),
		listing.Col("VERSION", func(t T) string { return of(t).GetVersion() }),
		listing.Col("PLATFORM", func(t T) string { return display.Platform(of(t).GetPlatform()) }),
		listing.Col("CHANNELS", func(t T) string { return strings.Join(of(t).GetChannels(), ",") }),
		listing.Col("FILE SIZE", func(t T) string { return listing.Size(of(t).GetSizeBytes()) }),
	}
}

// took notes that the catalog has an image by now.
func (s *session) took(l listed) {
	for n := range s.offers {
		if s.offers[n].of == l {
			s.offers[n].in = &imagev1.Image{}
		}
	}
}

// show lists the images of a source. What a source declares is one document of its own, beside which there is no other.
func (s *session) show(env *cli.Env) error {
	if s.agents && !env.Output.IsTable() {
		return nil
	}
	whole := struct {
		Images []offer `json:"images"`
	}{append([]offer{}, s.offers...)}
	return output.Show(env.Output, offers, whole, whole.Images)
}
