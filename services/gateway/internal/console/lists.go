package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/pkg/window"
)

// titled returns the title of a column as the name of a value.
func titled(title string) string { return title[:1] + strings.ToLower(title[1:]) }

// commandOf returns a command with the parameters of a page as its flags.
func commandOf(command string, v *visit, names ...string) string {
	for _, name := range names {
		switch value := textOf(v.Request, name); {
		case value == "":
		case slices.Contains(switches, name):
			command += " --" + name
		default:
			command += " --" + name + " " + listing.Quote(value)
		}
	}
	return command
}

// listCommand returns the command that lists what a page lists.
func listCommand(v *visit, noun string) string {
	return commandOf("garrison "+noun+" list", v, listed[noun].flags...)
}

// pathOf returns the page of one thing in a list.
func pathOf(list, id string) string { return "/console/" + list + "/" + url.PathEscape(id) }

func instancesPage(v *visit) (*page, error) {
	q := &registryv1.ListInstancesRequest{
		Page: v.part(), Agent: textOf(v.Request, "agent"), Version: textOf(v.Request, "version"),
		Stale: textOf(v.Request, "stale") != "", WithExternal: true,
	}
	var errs [3]error
	q.On, errs[0] = v.on()
	q.State, errs[1] = wordOf[instancev1.State](v, "state")
	q.Health, errs[2] = wordOf[instancev1.Health](v, "health")
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}
	t, err := list(v, q, display.Instances, (*registryv1.ListInstancesResponse).GetInstances, links[display.Instance]{
		"SERVER": func(i display.Instance) string { return pathOf("servers", i.GetServerName()) },
		"AGENT": func(i display.Instance) string {
			return "/console/instances?agent=" + url.QueryEscape(i.GetInstance().GetAgent())
		},
	})
	if err != nil {
		return nil, err
	}
	p := &page{
		Title: "Agents", Command: listCommand(v, "instance"),
		Search: &search{Name: "on", Value: textOf(v.Request, "on"), Hint: "On servers, as in env=prod"},
	}
	if q.GetAgent() != "" && q.GetOn() == nil && v.URL.Query().Get("after")+v.URL.Query().Get("as") == "" {
		over, err := trendOf(v, q.GetAgent())
		if err != nil {
			return nil, err
		}
		if over.Trend != nil {
			p.Parts = append(p.Parts, over)
		}
	}
	p.Parts = append(p.Parts, part{ID: "instances", Table: t})
	return p, nil
}

func checkPage(v *visit) (*page, error) {
	on, err := v.on()
	if err != nil {
		return nil, err
	}
	r, err := client.Call[*registryv1.CheckFleetResponse](v.Context(), v.client,
		&registryv1.CheckFleetRequest{Page: v.part(), On: on})
	if err != nil {
		return nil, err
	}
	t := tableOf(v, display.Differences, r.GetDifferences(), links[display.Difference]{
		"SERVER": func(d display.Difference) string { return pathOf("servers", d.GetServerName()) },
	})
	t.Empty = "Everything is as it is wanted."
	var drift []pair
	for _, d := range r.GetDrift() {
		drift = append(drift, pair{d.GetEnvironment(), cell{Text: display.Drift(d)}})
	}
	p := &page{
		Title: "Differences", Command: commandOf("garrison check", v, "on"),
		Search: &search{Name: "on", Value: textOf(v.Request, "on"), Hint: "On servers, as in env=prod"},
		Parts:  []part{{ID: "differences", Table: t.next(v, r.GetNextCursor())}},
	}
	if len(drift) > 0 {
		p.Parts = append(p.Parts, part{ID: "drift", Title: "What is done about drift", Pairs: drift})
	}
	return p, nil
}

func intentsPage(v *visit) (*page, error) {
	q := &registryv1.ListIntentsRequest{
		Page: v.part(), Actor: textOf(v.Request, "actor"), Verb: textOf(v.Request, "verb"),
	}
	var err error
	if q.State, err = wordOf[intentv1.State](v, "state"); err != nil {
		return nil, err
	}
	t, err := list(v, q, display.Records, (*registryv1.ListIntentsResponse).GetIntents, links[display.Record]{
		"ID": func(r display.Record) string { return pathOf("intents", r.GetId()) },
	})
	return &page{
		Title: "Requests", Command: listCommand(v, "intent"), Parts: []part{{ID: "intents", Table: t}},
	}, err
}

func intentPage(v *visit) (*page, error) {
	r, err := v.client.Intent(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	tasks, err := taskList(v, &dispatcherv1.ListTasksRequest{IntentId: r.GetId()})
	if err != nil {
		return nil, err
	}
	return &page{
		Title: display.BriefText(r.GetIntent()), Command: "garrison intent show " + r.GetId(),
		Parts: []part{
			{ID: "intent", Pairs: pairsOf(v, display.Records, r)},
			{ID: "tasks", Title: "Tasks", Table: tasks},
		},
	}, nil
}

// taskLinks lead to a task and to its server.
var taskLinks = links[display.Task]{
	"ID":     func(t display.Task) string { return pathOf("tasks", t.GetId()) },
	"SERVER": func(t display.Task) string { return pathOf("servers", t.GetServerId()) },
}

// taskList returns the part of a list of tasks that a request asks for, with the names of their servers.
func taskList(v *visit, q *dispatcherv1.ListTasksRequest) (*table, error) {
	q.Page = v.part()
	r, err := client.Call[*dispatcherv1.ListTasksResponse](v.Context(), v.client, q)
	if err == nil {
		err = nameServersOf(v, r.GetTasks(), display.Task.GetServerId)
	}
	return tableOf(v, display.Tasks, r.GetTasks(), taskLinks).next(v, r.GetNextCursor()), err
}

func tasksPage(v *visit) (*page, error) {
	q := &dispatcherv1.ListTasksRequest{
		Agent: textOf(v.Request, "agent"), IntentId: textOf(v.Request, "intent"), Slow: textOf(v.Request, "slow") != "",
	}
	if name := textOf(v.Request, "server"); name != "" {
		s, err := v.client.Server(v.Context(), name)
		if err != nil {
			return nil, err
		}
		q.ServerId = s.GetId()
	}
	state, err := wordOf[taskv1.State](v, "state")
	if err != nil {
		return nil, err
	}
	if state != 0 {
		q.States = []taskv1.State{state}
	}
	t, err := taskList(v, q)
	return &page{Title: "Tasks", Command: listCommand(v, "task"), Parts: []part{{ID: "tasks", Table: t}}}, err
}

func taskPage(v *visit) (*page, error) {
	t, err := v.client.Task(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	s, err := v.client.Server(v.Context(), t.GetServerId())
	name := t.GetServerId()
	if err == nil {
		name = s.GetName()
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	pairs := pairsOf(v, without(display.Tasks, "SERVER"), t)
	for n, is := range pairs {
		if is.Name == "Intent" {
			pairs[n].Link = "/console/intents/" + url.PathEscape(is.Text)
		}
	}
	pairs = slices.Insert(pairs, 0, pair{"Server", cell{Text: name, Link: "/console/servers/" + url.PathEscape(name)}})
	last, err := outputOf(v, t)
	if err != nil {
		return nil, err
	}
	for _, is := range []pair{
		{"Steps", cell{Text: display.Steps(t.GetOutcome())}}, {"Last output", cell{Text: visible.Text(last)}},
	} {
		if is.Text != "" {
			pairs = append(pairs, is)
		}
	}
	return &page{
		Title: "Task " + display.VerbText(t) + " " + t.GetAgent(), Command: "garrison task show " + t.GetId(),
		Parts: []part{{ID: "task", Pairs: pairs}},
	}, nil
}

// outputOf returns the end of what the agent of a task wrote before it failed. Not every role may read it.
func outputOf(v *visit, t display.Task) (string, error) {
	text := t.GetOutcome().GetLogTail()
	if !secret.IsSealed(text) {
		return text, nil
	}
	r, err := client.Call[*dispatcherv1.OpenOutputsResponse](v.Context(), v.client, &dispatcherv1.OpenOutputsRequest{
		Sealed: []*dispatcherv1.SealedOutput{{TaskId: t.GetId(), Sealed: text}},
	})
	if fault.Is(err, fault.Denied) {
		return "only the roles operator and admin read the output of agents", nil
	}
	return strings.Join(r.GetOutputs(), ""), err
}

func imagesPage(v *visit) (*page, error) {
	q := &catalogv1.ListImagesRequest{
		Page: v.part(), Agent: textOf(v.Request, "agent"), Channel: textOf(v.Request, "channel"),
		Untrusted: textOf(v.Request, "untrusted") != "",
	}
	var err error
	if q.State, err = wordOf[imagev1.State](v, "state"); err != nil {
		return nil, err
	}
	link := func(i display.Image) string { return pathOf("images", i.GetManifest().GetId()) }
	t, err := list(v, q, display.Images, (*catalogv1.ListImagesResponse).GetImages,
		links[display.Image]{"ID": link, "VERSION": link})
	return &page{
		Title:   "Images",
		Command: commandOf(strings.TrimSpace("garrison image list "+q.GetAgent()), v, "channel", "state", "untrusted"),
		Search:  &search{Name: "agent", Value: q.GetAgent(), Hint: "Of an agent"},
		Parts:   []part{{ID: "images", Table: t}},
	}, err
}

// imagePage is an image, and where it is.
func imagePage(v *visit) (*page, error) {
	i, err := v.client.Image(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	m := i.GetManifest()
	r, err := client.Call[*registryv1.CountInstancesResponse](v.Context(), v.client, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{ImageId: m.GetId()}, By: []string{"env", "state"},
	})
	if err != nil {
		return nil, err
	}
	c := chart{}
	for _, g := range r.GetCounts().GetGroups() {
		env, state := g.GetValues()[0], g.GetValues()[1]
		q := url.Values{
			"agent": {m.GetAgent()}, "version": {m.GetVersion()}, "state": {state}, "on": {"env=" + env},
		}
		c.add(env, bar{
			Count: int(g.GetCount()), Word: state, Class: string(listing.Tones[state]),
			Link: "/console/instances?" + q.Encode(),
		})
	}
	where := part{
		ID: "where", Title: "Where it is, or is wanted", Bars: c.rows(rowsShown), Cut: othersCut(r.GetCounts()),
	}
	if len(where.Bars) == 0 {
		where.Note = "No server has it, and none is to get it."
	}
	p := &page{
		Title: m.GetAgent() + "@" + m.GetVersion(), Command: "garrison image show " + m.GetId(),
		Parts: []part{{ID: "image", Pairs: pairsOf(v, display.Images, i)}, where},
	}
	v.offer(p, "Change the image", map[string]string{"image": m.GetId(), "agent": m.GetAgent()},
		"activate", "promote", "block")
	return p, nil
}

// holdsPage is what lets no change begin: holds, blocked builds, and environments that are closed.
func holdsPage(v *visit) (*page, error) {
	holds, err := client.Collect[*registryv1.ListRecordsResponse](v.Context(), v.client, record.List(ledger.Hold), 0)
	if err != nil {
		return nil, err
	}
	blocks, err := client.Collect[*registryv1.ListRecordsResponse](v.Context(), v.client, record.List(ledger.Block), 0)
	if err != nil {
		return nil, err
	}
	environments, err := environmentsTable(v, true)
	if err != nil {
		return nil, err
	}
	stay := part{ID: "holds", Title: "Agents that stay", Table: tableOf(v, display.Holds, holds.GetHolds(), nil)}
	if v.mayWrite() && len(holds.GetHolds()) > 0 {
		stay.Forms = []form{acts["unhold"].form("unhold", nil)}
	}
	return &page{Title: "Holds", Command: "garrison hold list", Parts: []part{
		stay,
		{ID: "blocks", Title: "Blocked builds", Table: tableOf(v, display.Blocks, blocks.GetBlocks(), nil)},
		{ID: "closed", Title: "Environments in which no change begins now", Table: environments},
	}}, nil
}

func environmentsPage(v *visit) (*page, error) {
	t, err := environmentsTable(v, false)
	if err != nil {
		return nil, err
	}
	return &page{
		Title: "Environments", Command: "garrison env list", Parts: []part{{ID: "environments", Table: t}},
	}, nil
}

// environmentsTable lists environments, or only those that are closed.
func environmentsTable(v *visit, closed bool) (*table, error) {
	r, err := client.Collect[*registryv1.ListRecordsResponse](v.Context(), v.client, record.List(ledger.Environment), 0)
	if err != nil {
		return nil, err
	}
	t := &table{Columns: []string{"NAME", "STATE", "WHY", "CHANNEL", "DEFAULTS", "DESCRIPTION"}, Empty: "None."}
	for _, e := range r.GetEnvironments() {
		now := window.At(e, v.at)
		if closed && now.Open {
			continue
		}
		t.Rows = append(t.Rows, []cell{
			{Text: e.GetName(), Link: "/console/servers?on=" + url.QueryEscape("env="+e.GetName())},
			{Text: now.Word(), Tone: toneOf(now.Word())}, {Text: visible.Text(now.Why)}, {Text: e.GetChannel()},
			{Text: defaultsText(e)}, {Text: visible.Text(e.GetDescription())},
		})
	}
	return t, nil
}

func defaultsText(e *environmentv1.Environment) string {
	var out []string
	for _, agent := range slices.Sorted(maps.Keys(e.GetDefaults())) {
		out = append(out, display.ChoiceText(agent, e.GetDefaults()[agent].GetImage()))
	}
	return strings.Join(out, ", ")
}

// codePage explains a code.
func codePage(v *visit) (*page, error) {
	e, known := code.Lookup(v.PathValue("code"))
	if !known {
		return nil, fault.Refusef(fault.NotFound, code.NotFound, "there is no code %.40q", v.PathValue("code"))
	}
	return &page{Title: e.Code, Command: "garrison explain " + e.Code, Parts: []part{{Pairs: []pair{
		{"Meaning", cell{Text: e.Meaning}}, {"What to do", cell{Text: e.Remedy}},
		{"Said by", cell{Text: strings.Join(e.By, ", ")}},
	}}}}, nil
}
