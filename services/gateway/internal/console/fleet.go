package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/overview"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// fleetPage is what needs a person, and then the fleet in numbers.
func fleetPage(v *visit) (*page, error) {
	if v.role == topology.Approver {
		return rolloutsPage(v) // the only noun that the role reads
	}
	f, err := overview.Read(v.Context(), v.client, nil, v.at)
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Fleet", Command: "garrison status -w"}
	needs := part{ID: "needs", Title: "Needs a person"}
	if len(f.Attention) == 0 {
		needs.Note = "Nothing needs a person."
	}
	needs.Tiles = append(needs.Tiles, tilesOf(f.Attention, listing.Look)...)
	p.Parts = append(p.Parts, needs)
	if len(f.Waiting) > 0 {
		p.Parts = append(p.Parts, part{ID: "waits", Title: "Ends by itself", Tiles: tilesOf(f.Waiting, listing.Plain)})
	}
	p.Parts = append(p.Parts,
		part{ID: "numbers", Title: "Numbers", Tiles: numbersOf(f)},
		versionsNow(f))
	if len(f.Rollouts) > 0 {
		p.Parts = append(p.Parts, part{ID: "rollouts", Title: "Rollouts under way", Table: rolloutLines(f.Rollouts)})
	}
	return p, nil
}

func tilesOf(points []overview.AttentionPoint, tone listing.Tone) (out []tile) {
	for _, at := range points {
		out = append(out, tile{
			Count: at.Count, What: at.What, Link: pageOf(at.Next), Command: at.Next, Tone: string(tone),
		})
	}
	return out
}

// numbersOf returns how many servers and instances there are in each state.
func numbersOf(f overview.Fleet) []tile {
	out := []tile{{Count: f.Servers.Total, What: "servers", Link: "/console/servers"}}
	for _, word := range sortedWords(f.Servers.Presence) {
		is := tile{
			Count: f.Servers.Presence[word], What: "servers " + cmp.Or(word, "unknown"),
			Tone: string(listing.Tones[word]),
		}
		if word != "" {
			is.Link = "/console/servers?presence=" + word
		}
		out = append(out, is)
	}
	out = append(out, tile{Count: f.Instances.Total, What: "instances", Link: "/console/instances"})
	for _, word := range sortedWords(f.Instances.State) {
		is := tile{
			Count: f.Instances.State[word], What: "instances " + word,
			Link: "/console/instances?state=" + word, Tone: string(listing.Tones[word]),
		}
		if word == "offline" { // the state of their servers
			is.Link = "/console/instances?on=presence%3Doffline"
		}
		out = append(out, is)
	}
	return out
}

// sortedWords returns the words with a count, the largest count first.
func sortedWords(counts map[string]int) (out []string) {
	for word, n := range counts {
		if n > 0 {
			out = append(out, word)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return out
}

func rolloutLines(lines []overview.RolloutLine) *table {
	t := &table{Columns: []string{"BRINGS", "STATE", "WAVE"}}
	for _, r := range lines {
		t.Rows = append(t.Rows, []cell{
			{Text: r.Title, Link: "/console/rollouts/" + r.Id}, {Text: r.State, Tone: toneOf(r.State)}, {Text: r.Wave},
		})
	}
	return t
}

// agentsDrawn bounds the agents of a chart, and colours is how many colours its parts have.
const agentsDrawn, colours = 30, 10

// versionsNow draws how many instances of each agent have which version.
func versionsNow(f overview.Fleet) part {
	c := chart{}
	for _, is := range f.Versions {
		n := 0
		if row := c[is.Agent]; row != nil {
			n = len(row.Parts)
		}
		b := bar{Count: is.Count, Word: cmp.Or(is.Version, "absent"), Class: fmt.Sprintf("s%d", n%colours)}
		if is.Version != "" {
			b.Link = "/console/instances?" + url.Values{"agent": {is.Agent}, "version": {is.Version}}.Encode()
		}
		c.add(is.Agent, b)
		c[is.Agent].Link = "/console/instances?agent=" + url.QueryEscape(is.Agent)
	}
	p := part{ID: "versions", Title: "Agents by version", Bars: c.rows(agentsDrawn), Cut: c.cut(agentsDrawn)}
	if len(c) == 0 {
		p.Note = "No agent is installed."
	}
	return p
}
