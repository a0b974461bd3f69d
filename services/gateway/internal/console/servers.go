package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// part returns the part of a list that a request asks for.
func (v *visit) part() *apiv1.Page {
	return &apiv1.Page{Limit: rowsShown, Cursor: v.URL.Query().Get("after")}
}

// on returns the selector of the parameter on; nil means every server.
func (v *visit) on() (*intentv1.Selector, error) {
	text := textOf(v.Request, "on")
	if text == "" {
		return nil, nil
	}
	on, err := selection.Parse([]string{text})
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	return on, nil
}

// wordOf reads a parameter that is a word of an enum; an empty one is 0.
func wordOf[E interface {
	protoreflect.Enum
	~int32
}](v *visit, name string) (E, error) {
	text := textOf(v.Request, name)
	if text == "" {
		return 0, nil
	}
	e, err := listing.ParseWord[E](text)
	if err != nil {
		return 0, fault.New(fault.Invalid, "%s: %w", name, err)
	}
	return e, nil
}

// serversPage lists servers.
func serversPage(v *visit) (*page, error) {
	q, err := serversAsked(v)
	if err != nil {
		return nil, err
	}
	r, err := client.Call[*registryv1.ListServersResponse](v.Context(), v.client, q)
	if err != nil {
		return nil, err
	}
	filter := proto.CloneOf(q)
	filter.Page = nil
	counts, err := client.Call[*registryv1.CountServersResponse](v.Context(), v.client,
		&registryv1.CountServersRequest{Filter: filter, By: []string{"env", "presence"}})
	if err != nil {
		return nil, err
	}
	on := textOf(v.Request, "on")
	rows := tableOf(v, display.Servers, r.GetServers(), links[display.Server]{
		"NAME": func(s display.Server) string { return pathOf("servers", s.GetName()) },
	}).next(v, r.GetNextCursor())
	p := &page{
		Title: "Servers", Command: listCommand(v, "server"),
		Search: &search{
			Name: "on", Value: on, Hint: "Servers, as in env=prod, rack=a or web-1", Keep: kept(v, filters...),
		},
		Parts: []part{{
			ID: "counts", Bars: serversChart(v, counts.GetCounts()), Cut: othersCut(counts.GetCounts()),
			Tabs: []place{{Name: "Map of these servers", Path: v.selecting("map", url.Values{})}},
		}},
	}
	if counts.GetCounts().GetTotal() > 0 && v.mayWrite() && onlyOn(v) {
		p.Parts = append(p.Parts, changeForms("Change agents on these servers", cmp.Or(on, "all")))
	}
	p.Parts = append(p.Parts, part{
		ID: "servers", Note: listing.Plural(int(counts.GetCounts().GetTotal()), "server") + ".", Table: rows,
	})
	return p, nil
}

// onlyOn reports whether a page is narrowed by nothing that a selector cannot say: a change would reach other servers
// than the page shows.
func onlyOn(v *visit) bool {
	for name := range v.URL.Query() {
		if name != "on" && name != "after" {
			return false
		}
	}
	return true
}

// serversAsked returns what the parameters ask for: those of garrison server list.
func serversAsked(v *visit) (*registryv1.ListServersRequest, error) {
	q := &registryv1.ListServersRequest{
		Page: v.part(), Trouble: textOf(v.Request, "trouble"),
		Leaked: textOf(v.Request, "leaked") != "", Found: textOf(v.Request, "found") != "",
	}
	var errs [5]error
	q.On, errs[0] = v.on()
	q.Presence, errs[1] = wordOf[serverv1.Presence](v, "presence")
	q.Life, errs[2] = wordOf[serverv1.Life](v, "life")
	q.Standing, errs[3] = wordOf[serverv1.Standing](v, "standing")
	q.Condition, errs[4] = wordOf[serverv1.ExecutorState](v, "condition")
	if text := textOf(v.Request, "unconfirmed"); text != "" {
		within, err := time.ParseDuration(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "unconfirmed: %w", err)
		}
		q.UnconfirmedFor = durationpb.New(within)
	}
	return q, cmp.Or(errs[:]...)
}

// serversChart draws how many servers of each environment are in which presence.
func serversChart(v *visit, counts *registryv1.Counts) []*bars {
	c := chart{}
	for _, g := range counts.GetGroups() {
		env, presence := g.GetValues()[0], g.GetValues()[1]
		is := bar{Count: int(g.GetCount()), Word: cmp.Or(presence, "unknown"), Class: string(listing.Tones[presence])}
		if presence != "" {
			is.Link = v.selecting("servers", url.Values{"presence": {presence}, "on": {"env=" + env}})
		}
		c.add(env, is)
	}
	return c.rows(rowsShown)
}

// serverPage is everything about one server.
func serverPage(v *visit) (*page, error) {
	r, err := client.Call[*registryv1.GetServerResponse](v.Context(), v.client,
		&registryv1.GetServerRequest{Server: v.PathValue("id")})
	if err != nil {
		return nil, err
	}
	s := r.GetServer()
	v.names = map[string]string{s.GetId(): s.GetName()}
	p := &page{Title: s.GetName(), Command: "garrison explain " + s.GetName()}
	pairs := pairsOf(v, display.Servers, s, "NAME")
	if c := r.GetClosed(); c != nil {
		pairs = append(pairs, pair{"No change begins", cell{Text: visible.Text(c.GetReason()), Tone: "look"}})
	}
	p.Parts = append(p.Parts, part{ID: "server", Pairs: pairs})
	if v.mayWrite() {
		p.Parts = append(p.Parts, changeForms("Change agents here", s.GetName()))
	}
	v.offer(p, "Change the server", map[string]string{"server": s.GetName()}, "hold", "label", "move", "decommission")
	for _, add := range []func(*visit, *serverv1.Server) (part, error){
		agentsOf, differencesOf, tasksOf, historyOf,
	} {
		one, err := add(v, s)
		if err != nil {
			return nil, err
		}
		p.Parts = append(p.Parts, one)
	}
	return p, nil
}

func agentsOf(v *visit, s *serverv1.Server) (part, error) {
	r, err := client.Collect[*registryv1.ListInstancesResponse](v.Context(), v.client,
		&registryv1.ListInstancesRequest{Server: s.GetId(), WithExternal: true, WithExecutors: true}, rowsShown)
	if err != nil {
		return part{}, err
	}
	l := without(display.Instances, "SERVER")
	rest := cut(rowsShown, r.GetNextCursor(), cell{Text: "All of its agents", Link: onServer("instances", s)})
	forms, wider := unholds(v, s, r.GetInstances())
	return part{
		ID: "agents", Title: "Agents", Table: tableOf(v, l, r.GetInstances(), nil), Forms: forms,
		Cut: append(rest, wider...),
	}, nil
}

// unholds returns a form for each hold on the agents of a server, and where those are ended that are about other
// servers, too.
func unholds(v *visit, s *serverv1.Server, rows []display.Instance) (out []form, wider []cell) {
	held := map[string]bool{}
	only := &intentv1.Selector{Servers: []string{s.GetId()}}
	for _, row := range rows {
		id := row.GetHold().GetId()
		if id == "" || held[id] || !v.mayWrite() {
			continue
		}
		held[id] = true
		if !proto.Equal(row.GetHold().GetOn(), only) {
			wider = []cell{{Text: "A hold here is about other servers, too:"}, {Text: "holds", Link: "/console/holds"}}
			continue
		}
		f := acts["unhold"].form("unhold", map[string]string{"hold": id, "server": s.GetName()})
		f.Button = "End the hold of " + row.GetHold().GetAgent()
		out = append(out, f)
	}
	return out, wider
}

func differencesOf(v *visit, s *serverv1.Server) (part, error) {
	r, err := client.Call[*registryv1.CheckFleetResponse](v.Context(), v.client, &registryv1.CheckFleetRequest{
		On: &intentv1.Selector{Servers: []string{s.GetId()}}, Page: &apiv1.Page{Limit: rowsShown},
	})
	if err != nil {
		return part{}, err
	}
	t := tableOf(v, without(display.Differences, "SERVER"), r.GetDifferences(), nil)
	t.Empty = "The server is as it is wanted."
	return part{
		ID: "differences", Title: "Differences from what is wanted", Table: t,
		Cut: cut(rowsShown, r.GetNextCursor(), cell{Text: "All of its differences", Link: onServer("check", s)}),
	}, nil
}

func tasksOf(v *visit, s *serverv1.Server) (part, error) {
	r, err := client.Call[*dispatcherv1.ListTasksResponse](v.Context(), v.client,
		&dispatcherv1.ListTasksRequest{ServerId: s.GetId(), Page: &apiv1.Page{Limit: tasksOfServer}})
	if err != nil {
		return part{}, err
	}
	t := tableOf(v, without(display.Tasks, "SERVER"), r.GetTasks(), taskLinks)
	return part{
		ID: "tasks", Title: "Tasks", Table: t,
		Cut: cut(tasksOfServer, r.GetNextCursor(), cell{
			Text: "All tasks of the server", Link: "/console/tasks?server=" + url.QueryEscape(s.GetName()),
		}),
	}, nil
}

// onServer returns the page of a list, for one server.
func onServer(list string, s *serverv1.Server) string {
	return "/console/" + list + "?on=" + url.QueryEscape(s.GetName())
}

// tasksOfServer and factsOfServer are how many of the last tasks of a server, and facts about it, its page has.
const tasksOfServer, factsOfServer = 20, 40

// historyOf returns what happened to a server and its instances, the last first.
func historyOf(v *visit, s *serverv1.Server) (part, error) {
	var all []client.Event
	for _, noun := range []ledger.Noun{ledger.Server, ledger.Instance} {
		facts, err := v.client.LastEvents(v.Context(), factsOfServer, client.Query{Noun: noun, Key: s.GetId()}, nil)
		if err != nil {
			return part{}, err
		}
		all = append(all, facts...)
	}
	slices.SortFunc(all, func(a, b client.Event) int { return cmp.Compare(b.Sequence, a.Sequence) })
	p := part{ID: "history", Title: "What happened"}
	if len(all) >= factsOfServer {
		all = all[:factsOfServer]
		p.Cut = []cell{
			{Text: fmt.Sprintf("The last %d facts are shown.", factsOfServer)},
			{Text: "All of the server", Link: "/console/events?noun=server&key=" + s.GetId()}, {Text: "and"},
			{Text: "all of its agents", Link: "/console/events?noun=instance&key=" + s.GetId()},
		}
	}
	p.Table = factsTable(v, all)
	return p, nil
}

// without returns a listing without a column.
func without[T any](l listing.Listing[T], title string) listing.Listing[T] {
	l.Columns = slices.DeleteFunc(slices.Clone(l.Columns), func(c listing.Column[T]) bool { return c.Title == title })
	return l
}

// pairsOf returns the columns of one row that are not empty, but for those that are named.
func pairsOf[T any](v *visit, l listing.Listing[T], row T, but ...string) (out []pair) {
	view := listing.View{At: v.at, Wide: true}
	for _, c := range l.Columns {
		text := c.Value(view, row)
		if text == "" || slices.Contains(but, c.Title) {
			continue
		}
		out = append(out, pair{titled(c.Title), cellOf(c.Title, text)})
	}
	return out
}
