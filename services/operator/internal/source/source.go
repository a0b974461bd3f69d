// Package source builds the commands of garrison source: places outside the catalog that images are imported from.
//
// The catalog keeps the names, places and keys of sources. Only the command line connects to a source: it fetches
// image files and imports them as garrison image import does, so that the control plane opens no connection, and
// content is trusted by its digest and signature alone.
//
// A source is a directory of files, which any web server serves. See deploy/docs/sources.md for its format.
package source

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/seal"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type source = *sourcev1.Source

var table = listing.Listing[source]{
	Name: source.GetName,
	Columns: []listing.Column[source]{
		listing.Col("NAME", source.GetName),
		listing.Col("PLACE", source.GetLocation),
		listing.Since("SYNCED", source.GetSyncedAt),
		listing.Col("IMAGES", func(s source) string {
			if s.GetLast() == nil {
				return ""
			}
			return fmt.Sprint(s.GetLast().GetImages())
		}).Numeric(),
		listing.Col("NEXT", func(s source) string {
			if s.GetLast() == nil {
				return "garrison source sync " + s.GetName()
			}
			return ""
		}),
		listing.Wide("PUBLISHED", func(s source) string { return listing.Stamp(s.GetLast().GetPublishedAt()) }),
		listing.Wide("KEYS", func(s source) string { return strings.Join(s.GetKeys(), ",") }),
		listing.Wide("BY", source.GetAddedBy),
	},
}

// Commands returns the command source with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("source", "Manage sources: places that images are imported from.",
		cli.ListCommand[*catalogv1.ListSourcesResponse](env, "source", "List sources, and when each was last "+
			"synchronized.", table, &catalogv1.ListSourcesRequest{}),
		addCommand(env), syncCommand(env), publishCommand(env), removeCommand(env))
}

func addCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.AddSourceRequest{}
	c := &cobra.Command{
		Use: "add NAME URL|DIR --key KEY",
		Example: "  garrison source add site /srv/site " +
			"--key ACFM6KUI2ZNWG6CVXKXZWR2ONAFQIEQ6F4VZR7IHUQXAPX2ZTDU4MA7T",
		Short: "Add a source, or change its place and keys.",
		Args:  cli.Exactly("NAME", "URL|DIR"), PreRunE: cli.Prints(env, table),
		RunE: func(c *cobra.Command, a []string) (err error) {
			if q.Name, q.Location = a[0], a[1]; !strings.Contains(q.Location, "://") {
				if q.Location, err = filepath.Abs(q.Location); err != nil {
					return err
				}
			}
			before, err := find(c.Context(), env, a[0])
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			r, err := cli.Call[*catalogv1.AddSourceResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			return cli.Changed(env, table, r.GetSource(),
				"source %s %s; to import from it: garrison source sync %[1]s", a[0],
				cli.Outcome(proto.Equal(before, r.GetSource()), "added"))
		},
	}
	cli.NamesVar(c.Flags(), &q.Keys, "key", seal.CheckKey,
		"public `KEYS`; one of them must have signed its index; repeatable")
	return c
}

func removeCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Example: "  garrison source remove site",
		Short:   "Remove a source; images that came from it stay.", Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := cli.Call[*catalogv1.RemoveSourceResponse](c.Context(), env,
				&catalogv1.RemoveSourceRequest{Name: a[0]})
			return cli.Deleted(env, "source", a[0], err)
		},
	}
}

// find returns a source by name.
func find(ctx context.Context, env *cli.Env, name string) (source, error) {
	all, err := cli.All[*catalogv1.ListSourcesResponse](ctx, env, &catalogv1.ListSourcesRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all.GetSources() {
		if s.GetName() == name {
			return s, nil
		}
		names = append(names, s.GetName())
	}
	return nil, cli.Unknown(code.NotFound, "no source", name, slices.Values(names), "garrison source list")
}

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
