package console

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

const (
	// trendFor is how far back a trend looks, and trendTasks how many changes it reads at most.
	trendFor, trendTasks = 30 * 24 * time.Hour, 2000
	// trendColumns is how many moments a trend draws.
	trendColumns = 60
)

// trend is a picture of how many instances had which version, one column for each moment.
type trend struct {
	Width, Most int
	From, To    string
	Legend      []*shade
}

// swap is a change of one instance from a version to another; "" without one.
type swap struct {
	at       time.Time
	from, to string
}

// trendOf draws the versions of an agent over time. It begins with the present counts and takes back the changes that
// succeeded, the last one first.
func trendOf(v *visit, agent string) (part, error) {
	counts, err := client.Call[*registryv1.CountInstancesResponse](v.Context(), v.client,
		&registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{Agent: agent}, By: []string{"version"},
		})
	if err != nil {
		return part{}, err
	}
	tasks, err := client.Collect[*dispatcherv1.ListTasksResponse](v.Context(), v.client,
		&dispatcherv1.ListTasksRequest{Agent: agent, States: []taskv1.State{taskv1.State_STATE_SUCCEEDED}}, trendTasks)
	if err != nil {
		return part{}, err
	}
	swaps := swapsOf(tasks.GetTasks())
	p := part{
		ID: "trend", Title: "Versions over time",
		Note: "Computed from the versions that are there now and the changes that succeeded. " +
			"Servers that are gone, and versions that came without a task, are left out.",
	}
	begin := v.at.Add(-trendFor)
	n := len(swaps)
	switch {
	case n == 0 || swaps[n-1].at.Before(begin):
	case tasks.GetNextCursor() == "" && tasks.GetKeptEnded() == 0: // with a little of what was before
		begin = later(begin, swaps[n-1].at.Add(-v.at.Sub(swaps[n-1].at)/20))
	default:
		begin = swaps[n-1].at
		p.Cut = []cell{{Text: "Changes before " + day(begin) + " are not read."}}
	}
	now := map[string]int{}
	for _, g := range counts.GetCounts().GetGroups() {
		if version := g.GetValues()[0]; version != "" {
			now[version] = int(g.GetCount())
		}
	}
	if p.Trend = drawTrend(now, swaps, begin, v.at); p.Trend == nil {
		return part{}, nil
	}
	for _, is := range p.Trend.Legend {
		is.Link = "/console/instances?" + url.Values{"agent": {agent}, "version": {is.Word}}.Encode()
	}
	return p, nil
}

// swapsOf returns the changes of versions that tasks made, the last first.
func swapsOf(tasks []display.Task) (out []swap) {
	for _, t := range tasks {
		is := swap{t.GetSince().AsTime(), t.GetFrom().GetVersion(), t.GetTo().GetVersion()}
		if t.GetVerb() != taskv1.Verb_VERB_REFRESH && is.from != is.to {
			out = append(out, is)
		}
	}
	slices.SortStableFunc(out, func(a, b swap) int { return b.at.Compare(a.at) })
	return out
}

// drawTrend draws the versions between two times; nil when there are none.
func drawTrend(now map[string]int, swaps []swap, begin, end time.Time) *trend {
	out := &trend{Width: trendColumns * 10, From: day(begin), To: day(end)}
	columns := make([]map[string]int, trendColumns)
	seen := map[string]*shade{}
	have := map[string]int{}
	for version, n := range now {
		have[version] = n
		seen[version] = &shade{bar: bar{Word: version, Count: n}}
	}
	for n := trendColumns - 1; n >= 0; n-- {
		at := begin.Add(end.Sub(begin) * time.Duration(n) / (trendColumns - 1))
		for len(swaps) > 0 && swaps[0].at.After(at) {
			have[swaps[0].to]--
			have[swaps[0].from]++
			swaps = swaps[1:]
		}
		columns[n] = map[string]int{}
		total := 0
		for version, count := range have {
			if version == "" || count <= 0 { // a server that is gone took back more than there is
				continue
			}
			columns[n][version] = count
			total += count
			if seen[version] == nil {
				seen[version] = &shade{bar: bar{Word: version}}
			}
		}
		out.Most = max(out.Most, total)
	}
	if out.Most == 0 {
		return nil
	}
	out.Legend = ranked(seen)
	for n, column := range columns {
		y := 100.0
		for _, is := range out.Legend {
			if h := float64(column[is.Word]) * 100 / float64(out.Most); h > 0 {
				y -= h
				fmt.Fprintf(&is.path, "M%d %.1fh10v%.1fh-10z", n*10, y, h)
			}
		}
	}
	return out
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// Says returns what the picture shows, in words.
func (t *trend) Says() string {
	return fmt.Sprintf("%s to %s, %s at most", t.From, t.To, listing.Plural(t.Most, "instance"))
}
