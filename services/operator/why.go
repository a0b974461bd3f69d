package operator

import (
	"context"
	"strings"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// tasksExplained is how many of the newest tasks are shown: the last one says why, those
// before it whether that is new.
const tasksExplained = 5

// why is one thing that explains a server: what it is, how it is, since when, what comes next and why.
type why struct {
	What   string `json:"what"`
	Name   string `json:"name"`
	Is     string `json:"is"`
	State  string `json:"state"`
	Since  string `json:"since"`
	Next   string `json:"next,omitempty"`
	Reason string `json:"reason,omitempty"`
	age    string
}

type whyList struct {
	Explained []why `json:"explained"`
}

var whyListing = listing[why]{
	name: func(w why) string { return w.What + "/" + w.Name },
	columns: []column[why]{
		{title: "WHAT", value: func(_ view, w why) string { return w.What }},
		{title: "NAME", value: func(_ view, w why) string { return w.Name }},
		{title: "IS", value: func(_ view, w why) string { return w.Is }},
		{title: "STATE", value: func(_ view, w why) string { return w.State }},
		{title: "SINCE", value: func(_ view, w why) string { return w.age }, key: func(w why) string { return w.Since }},
		{title: "NEXT", value: func(_ view, w why) string { return w.Next }},
		{title: "REASON", value: func(_ view, w why) string { return w.Reason }},
	},
}

// explainServer shows a server, what is wanted and found on it, and its newest tasks;
// with an agent only what concerns that.
func (s *session) explainServer(ctx context.Context, name string, agents []string) error {
	found, err := s.getServer(ctx, name)
	if err != nil {
		return err
	}
	agent := ""
	if len(agents) > 0 {
		agent = agents[0]
	}
	instances, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{Server: found.GetId(), Agent: agent})
	if err != nil {
		return err
	}
	tasks, err := s.askTasks(ctx, pageFlags{limit: tasksExplained}, &dispatcherv1.ListTasksRequest{ServerId: found.GetId(), Agent: agent})
	if err != nil && !fault.Is(err, fault.NotFound) { // the dispatcher need not know a server that never had a task
		return err
	}
	rows := []why{whyServer(s.view(), found)}
	for _, d := range found.GetDuties() {
		if agent == "" || d.GetAgent() == agent || d.GetAgent() == "" {
			rows = append(rows, whyDuty(s.view(), found, d))
		}
	}
	for _, i := range instances {
		rows = append(rows, whyInstance(s.view(), i))
	}
	rows = append(rows, whyFound(s.view(), found, agent)...)
	if agent != "" && len(instances) == 0 {
		rows = append(rows, why{What: "agent", Name: agent, State: "not wanted", Next: "garrison install " + agent + " --on " + found.GetName()})
	}
	for _, t := range tasks.GetTasks() {
		rows = append(rows, whyTask(s.view(), t))
	}
	return show(s, whyListing, whyList{rows}, rows)
}

func whyServer(v view, s server) why {
	return why{
		What: "server", Name: s.GetName(), Is: platform(s.GetSysinfo().GetPlatform()), State: serverState(s),
		Since: stamp(serverSince(s)), age: age(v, serverSince(s)), Next: serverNext(v, s), Reason: serverReason(s),
	}
}

func whyInstance(v view, r instance) why {
	i := r.GetInstance()
	is := i.GetObserved().GetVersion()
	if want := i.GetWanted().GetVersion(); want != is {
		is = dash(is) + " → " + dash(want)
	}
	if h := word(i.GetHealth()); h != "" {
		is += " " + h
	}
	if at := i.GetConfirmedAt(); at != nil && r.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		is += ", " + age(v, at) + " ago"
	}
	return why{
		What: "agent", Name: i.GetAgent(), Is: is, State: word(i.GetState()),
		Since: stamp(i.GetSince()), age: age(v, i.GetSince()), Next: instanceNext(v, r), Reason: i.GetReason(),
	}
}

func whyTask(v view, t task) why {
	is := word(t.GetVerb())
	if t.GetAgent() != "" {
		is += " " + t.GetAgent()
	}
	if from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion(); from != to {
		is += " " + dash(from) + " → " + dash(to)
	}
	next := taskNext(v, t)
	if next == "" && t.GetOutcome().GetCode() != "" {
		next = "garrison task show " + ident.Short(t.GetId())
	}
	return why{
		What: "task", Name: shortID(v, t.GetId()), Is: is, State: word(t.GetState()),
		Since: stamp(t.GetSince()), age: age(v, t.GetSince()), Next: next, Reason: whyRunning(v, t),
	}
}

// whyRunning returns why a task is where it is: of one that is under way, its step and whether that is slow.
func whyRunning(v view, t task) string {
	if live := liveText(v, t); live != "" {
		return strings.TrimPrefix(taskReason(t)+"; at "+live, "; ")
	}
	return taskReason(t)
}

// dash stands for what is not there.
func dash(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
