package webhook

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// mostTasks bounds the tasks whose server and agent are remembered.
const mostTasks = 4096

// about is what a fact is about.
type about struct {
	serverID, agent string
	server          *serverv1.Server // nil without one, or when it was forgotten
}

// lookup finds what facts are about.
type lookup struct {
	tasks map[string]about // from their first facts
}

// of returns what a fact is about.
func (l *lookup) of(ctx context.Context, c *client.Client, e client.Event) (about, error) {
	a, err := l.named(ctx, c, e)
	if err == nil && a.serverID != "" {
		a.server, err = serverOf(ctx, c, &intentv1.Selector{Servers: []string{a.serverID}})
	}
	return a, err
}

// named returns what a fact is about, without the record of the server.
func (l *lookup) named(ctx context.Context, c *client.Client, e client.Event) (a about, err error) {
	switch e.Noun {
	case ledger.Server:
		a.serverID = e.Key
	case ledger.Instance:
		a.serverID, a.agent, _ = strings.Cut(e.Key, ".")
	case ledger.Task:
		a, err = l.ofTask(ctx, c, e)
	case ledger.Agent:
		a.agent = e.Key
	default:
		if b, ok := e.Body.(interface{ GetAgent() string }); ok {
			a.agent = b.GetAgent()
		}
	}
	return a, err
}

// ofTask returns what a task is about: its first fact says so, or else the dispatcher.
func (l *lookup) ofTask(ctx context.Context, c *client.Client, e client.Event) (about, error) {
	if q := task.Opened(e.Body); q.GetServerId() != "" {
		return l.keep(e.Key, about{serverID: q.GetServerId(), agent: q.GetAgent()}), nil
	}
	if a, known := l.tasks[e.Key]; known {
		return a, nil
	}
	r, err := client.Call[*dispatcherv1.GetTaskResponse](ctx, c, &dispatcherv1.GetTaskRequest{Task: e.Key})
	if err != nil {
		return about{}, unlessGone(err)
	}
	return l.keep(e.Key, about{serverID: r.GetTask().GetServerId(), agent: r.GetTask().GetAgent()}), nil
}

func (l *lookup) keep(task string, a about) about {
	if l.tasks == nil || len(l.tasks) == mostTasks {
		l.tasks = map[string]about{}
	}
	l.tasks[task] = a
	return a
}

// unlessGone returns an error unless it says that there is no such object.
func unlessGone(err error) error {
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return nil
	}
	return err
}

// serverOf returns the one server of a selector, or nil.
func serverOf(ctx context.Context, c *client.Client, on *intentv1.Selector) (*serverv1.Server, error) {
	r, err := client.Call[*registryv1.ListServersResponse](ctx, c, &registryv1.ListServersRequest{
		Page: &apiv1.Page{Limit: 1}, On: on,
	})
	if err != nil || len(r.GetServers()) == 0 {
		return nil, unlessGone(err)
	}
	return r.GetServers()[0], nil
}

// selects reports whether the route sends a fact, and what the fact is about.
func (r *route) selects(ctx context.Context, c *client.Client, l *lookup, e client.Event) (about, bool, error) {
	byKey := r.filter
	byKey.IDs = nil
	if !byKey.Fits(e) {
		if e.Noun == ledger.Task && task.Opened(e.Body) != nil {
			_, _ = l.ofTask(ctx, c, e) // it costs no call
		}
		return about{}, false, nil
	}
	if r.agent != "" {
		if a, err := l.named(ctx, c, e); err != nil || a.agent != r.agent {
			return a, false, err
		}
	}
	a, err := l.of(ctx, c, e)
	if err != nil {
		return a, false, err
	}
	named := r.filter.Fits(e) || slices.ContainsFunc(r.filter.IDs, func(id string) bool {
		return id == a.serverID || id == a.server.GetName() || id == a.agent
	})
	if !named {
		return a, false, nil
	}
	on, err := r.onServer(ctx, c, a.server)
	return a, on, err
}

// onServer reports whether the selector of a route means a server.
func (r *route) onServer(ctx context.Context, c *client.Client, s *serverv1.Server) (bool, error) {
	if r.on == nil || s == nil {
		return r.on == nil, nil
	}
	on := proto.CloneOf(r.on)
	if len(on.GetServers()) > 0 && !slices.ContainsFunc(on.GetServers(), func(given string) bool {
		return given == s.GetName() || strings.HasPrefix(s.GetId(), given)
	}) {
		return false, nil
	}
	on.All, on.Servers = false, []string{s.GetId()}
	found, err := serverOf(ctx, c, on)
	return found != nil, err
}
