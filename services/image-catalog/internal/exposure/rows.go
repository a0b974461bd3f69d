package exposure

import (
	"cmp"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/advisory"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Image is an image of the catalog whose content is whole.
type Image struct {
	ID, Agent, Version, Digest string
	Platform                   *serverv1.Platform
	State                      imagev1.State
	Channels                   []string
}

// line is the images of an agent for one platform, in a channel or, when it is empty, in any.
type line struct{ agent, os, arch, channel string }

func (i Image) line(channel string) line {
	return line{i.Agent, i.Platform.GetOs(), i.Platform.GetArch(), channel}
}

// Fill adds to an answer what is found in images, which are in the order of agents and versions.
func (x *Index) Fill(r *catalogv1.ListExposedResponse, images []Image, queries []Query) {
	found := x.Find(queries)
	next := map[line]string{} // the highest version that is a cure: asking for it lowers no server
	for _, i := range slices.Backward(images) {
		r.Images++
		known, hasSBOM := x.Known(i.Digest)
		hits := found[i.Digest]
		switch {
		case len(hits) > 0:
			r.ExposedImages++
			r.Exposed = append(r.Exposed, i.rows(hits, i.cure(next))...)
		case !known:
			r.Unread++
		case !hasSBOM:
			r.WithoutSbom++
		case i.State == imagev1.State_STATE_ACTIVE:
			for _, channel := range append([]string{""}, i.Channels...) {
				next[i.line(channel)] = cmp.Or(next[i.line(channel)], i.Version)
			}
		}
	}
	slices.Reverse(r.Exposed)
}

// cure returns the version that cures an image: one of its own channels if there is one.
func (i Image) cure(next map[line]string) string {
	for _, channel := range i.Channels {
		if v := next[i.line(channel)]; v != "" {
			return v
		}
	}
	return next[i.line("")]
}

// rows returns a row for each vulnerable component of an image, the last one first.
func (i Image) rows(hits []Hit, cure string) (rows []*catalogv1.Exposed) {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Name, a.Name), cmp.Compare(b.Ecosystem, a.Ecosystem),
			cmp.Compare(b.Version, a.Version))
	})
	for _, h := range hits {
		rows = append(rows, &catalogv1.Exposed{
			Id: i.ID, Agent: i.Agent, ImageVersion: i.Version, Platform: i.Platform, State: i.State,
			Ecosystem: h.Ecosystem, Package: h.Name, Version: h.Version, FixedIn: h.FixedIn,
			Maybe: h.Verdict == advisory.Maybe, Cure: cure,
		})
	}
	return rows
}
