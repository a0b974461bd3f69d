package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

const (
	// mapDrawn bounds the cells of a map.
	mapDrawn = 100_000
	// mapFollows is how many servers a map has at most that follows the ledger: a larger one costs the registry a
	// list of them all.
	mapFollows = 5_000
	// shadesNamed bounds the legend of a map.
	shadesNamed = 40
)

// heatMap is a picture with a small square for each server. Squares of a colour that touch in a row are one line, so
// that a page of 10,000 servers is small.
type heatMap struct {
	Columns, Rows, Width int
	Names                string // of the servers in the order of their squares, as namesOf writes them
	Shades               []*shade
}

// shade is what servers of one colour have in common. Its bar is an entry of the legend.
type shade struct {
	bar
	path strings.Builder
}

// Path returns the lines of the shade.
func (s *shade) Path() string { return s.path.String() }

// mapped is the square of a server.
type mapped struct {
	env, name string
	is        *shade
}

// turn lets one at a time.
type turn chan struct{}

// large is the turn of maps that do not follow the ledger, of all users: each reads a list of all servers.
var large = make(turn, 1)

// take waits for the turn until a page must be made, and returns what ends it.
func (t turn) take(ctx context.Context) (leave func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, fault.Refusef(fault.Unavailable, code.Busy, "other maps of more than %d servers are drawn",
			mapFollows).After(time.Second)
	}
}

// mapPage draws all servers, or those that are selected, by environment and name.
func mapPage(v *visit) (*page, error) {
	q, err := serversAsked(v)
	if err != nil {
		return nil, err
	}
	q.Page = nil
	r, err := client.Call[*registryv1.CountServersResponse](v.Context(), v.client,
		&registryv1.CountServersRequest{Filter: q})
	if err != nil {
		return nil, err
	}
	if r.GetCounts().GetTotal() > mapFollows {
		leave, err := large.take(v.Context())
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	colour, err := colouring(v, q)
	if err != nil {
		return nil, err
	}
	var all []mapped
	shades := map[string]*shade{}
	cut := false
	for s, err := range v.client.Servers(v.Context(), q) {
		if err != nil {
			return nil, err
		}
		if cut = len(all) == mapDrawn; cut {
			break
		}
		b := colour(s)
		is := shades[b.Word]
		if is == nil {
			is = &shade{bar: b}
			shades[b.Word] = is
		}
		is.Count++
		all = append(all, mapped{s.GetEnvironment(), s.GetName(), is})
	}
	out := part{Tabs: mapTabs(v), Note: listing.Plural(len(all), "server") + ", by environment and name."}
	if cut {
		out.Note = fmt.Sprintf("The first %d servers are drawn.", mapDrawn)
	}
	if len(all) <= mapFollows {
		out.ID = "map"
	}
	if len(all) > 0 {
		out.Map = drawMap(all, ranked(shades))
		out.Cut = shadesCut(len(shades))
	}
	agents, err := agentTabs(v, q)
	out.Tabs = append(out.Tabs, agents...)
	return &page{
		Title: "Map of servers", Command: listCommand(v, "server"),
		Search: &search{Name: "on", Value: textOf(v.Request, "on"), Hint: "Servers, as in env=prod or rack=a",
			Keep: append(kept(v, "by", "agent"), kept(v, filters...)...)},
		Parts: []part{out},
	}, err
}

// kept returns the parameters that a search keeps.
func kept(v *visit, names ...string) (out []field) {
	for _, name := range names {
		if value := textOf(v.Request, name); value != "" {
			out = append(out, field{Name: name, Value: value})
		}
	}
	return out
}

func shadesCut(n int) []cell {
	if n <= shadesNamed {
		return nil
	}
	return []cell{{Text: fmt.Sprintf("%d more groups are drawn and not named.", n-shadesNamed)}}
}

// mapTabs are the ways in which a map can be coloured.
func mapTabs(v *visit) (out []place) {
	by := cmp.Or(textOf(v.Request, "by"), "state")
	for _, name := range []string{"state", "environment", "silence"} {
		out = append(out, place{Name: name, Path: v.selecting("map", url.Values{"by": {name}}), Here: by == name})
	}
	return out
}

// agentTabs colour a map by the versions of one of the agents that most servers have.
func agentTabs(v *visit, q *registryv1.ListServersRequest) (out []place, err error) {
	r, err := client.Call[*registryv1.CountInstancesResponse](v.Context(), v.client, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{On: q.GetOn()}, By: []string{"agent"}, Top: agentsDrawn,
	})
	for _, g := range r.GetCounts().GetGroups() {
		agent := g.GetValues()[0]
		here := textOf(v.Request, "by") == "version" && textOf(v.Request, "agent") == agent
		out = append(out, place{
			Name: "version of " + agent, Here: here,
			Path: v.selecting("map", url.Values{"by": {"version"}, "agent": {agent}}),
		})
	}
	return out, err
}

// drawMap draws squares in their order, in rows that are two and a half times as long as there are rows.
func drawMap(all []mapped, shades []*shade) *heatMap {
	slices.SortFunc(all, func(a, b mapped) int {
		return cmp.Or(cmp.Compare(a.env, b.env), cmp.Compare(a.name, b.name))
	})
	m := &heatMap{Columns: min(max(int(math.Ceil(math.Sqrt(2.5*float64(len(all))))), 20), 500), Shades: shades}
	m.Rows = (len(all) + m.Columns - 1) / m.Columns
	m.Width = min(m.Columns*16, 1400)
	names := make([]string, len(all))
	for n := range all {
		names[n] = all[n].name
	}
	m.Names = namesOf(names)
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && to%m.Columns != 0 && all[to].is == all[from].is {
			to++
		}
		fmt.Fprintf(&all[from].is.path, "M%d %dh%d", from%m.Columns, from/m.Columns, to-from)
		from = to
	}
	return m
}

// Legend returns the shades that are named.
func (m *heatMap) Legend() []*shade { return m.Shades[:min(len(m.Shades), shadesNamed)] }

// sharedMost is how many letters a name shares with the one before at most: one digit says how many.
const sharedMost = 35

// namesOf writes names on a line each, without the letters that it shares with the one before: a digit of base 36 says
// how many those are.
func namesOf(names []string) string {
	var out strings.Builder
	last := ""
	for n, name := range names {
		if n > 0 {
			out.WriteByte('\n')
		}
		same := 0
		for same < min(len(name), len(last), sharedMost) && name[same] == last[same] && name[same] < 0x80 {
			same++
		}
		out.WriteString(strconv.FormatInt(int64(same), 36) + name[same:])
		last = name
	}
	return out.String()
}
