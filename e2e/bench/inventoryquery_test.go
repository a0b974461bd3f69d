package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// page is how many rows a query of a list asks for.
const pageRows = 100

// question is asked again and again, each time with another number.
type question struct {
	name string
	ask  func(ctx context.Context, n int) error
}

// queries measures questions to the registry, by one caller, one after another.
func (w *stocked) queries() []figure {
	w.echo()
	conn := w.operator()
	a := asker{conn}
	empty := repeated(w.b, func(ctx context.Context, _ int) error {
		return a.echo(ctx)
	})
	out := []figure{{"empty echo, ms", percentiles(empty), "", "", ""}}
	for _, q := range w.questions(a) {
		before := w.garbage()
		took := repeated(w.b, q.ask)
		after := w.garbage()
		out = append(out, figure{
			q.name + ", ms", percentiles(took),
			fmt.Sprintf("allocates %.0f KB, collections: %.0f", (after.bytes-before.bytes)/1024/float64(len(took)),
				after.collections-before.collections),
			ratio(at(took, 50), at(empty, 50)), "p99 <= 10",
		})
	}
	return out
}

func percentiles(took []float64) string {
	return fmt.Sprintf("p50 %.2f, p99 %.2f (n=%d)", at(took, 50), at(took, 99), len(took))
}

// questions returns the questions; a list goes on from page to page.
func (w *stocked) questions(a asker) []question {
	lists := []question{
		{"instances of a server", func(ctx context.Context, _ int) error {
			return a.list(ctx, &registryv1.ListInstancesRequest{Server: w.someServer()})
		}},
		{"instances of an image, a page of 100", a.pages(&registryv1.ListInstancesRequest{ImageId: w.image(1, 2).Id})},
		{"instances not as wanted, a page of 100", a.pages(&registryv1.ListInstancesRequest{NotAtWanted: true})},
		{"all instances, a page of 100", a.pages(&registryv1.ListInstancesRequest{})},
		{"failed instances of an agent in an environment, a page of 100", a.pages(&registryv1.ListInstancesRequest{
			Agent: w.agent(1), Environment: "env-3", State: instancev1.State_STATE_FAILED,
		})},
		{"instances of a version on a rack, a page of 100", a.pages(&registryv1.ListInstancesRequest{
			Version: "2.0.0", On: &intentv1.Selector{Labels: map[string]string{"rack": "r1"}},
		})},
		{"explain a server: its record, instances, differences, defaults", func(ctx context.Context, _ int) error {
			return a.explain(ctx, w.someServer())
		}},
	}
	for _, by := range [][]string{
		{"version"}, {"agent", "version", "state"}, {"env", "version"}, {"env", "app", "wanted-version", "health"},
		{"label.role", "version"},
	} {
		lists = append(lists, question{fmt.Sprint("count of all instances by ", by), a.count(nil, by)})
	}
	one := &registryv1.ListInstancesRequest{Agent: w.agent(1)}
	return append(lists,
		question{"count of an agent's instances by [env version]", a.count(one, []string{"env", "version"})},
		question{"count of all servers by [env presence]", func(ctx context.Context, _ int) error {
			_, err := call[*registryv1.CountServersResponse](ctx, a, "CountServers",
				&registryv1.CountServersRequest{By: []string{"env", "presence"}})
			return err
		}})
}

func (w *stocked) someServer() string { return w.server(rand.IntN(w.servers)) }

// asker asks the registry as an operator.
type asker struct{ conn *bus.Conn }

var registryMethods = registryv1.File_garrison_registry_v1_registry_service_proto.Services().
	ByName("RegistryService").Methods()

func call[R proto.Message](ctx context.Context, a asker, method protoreflect.Name, q proto.Message) (R, error) {
	return bus.Call[R](ctx, a.conn, topology.UserRegistry, registryMethods.ByName(method), q)
}

func (a asker) echo(ctx context.Context) error {
	_, err := bus.Call[*registryv1.GetServerResponse](ctx, a.conn, echoing, registryMethods.ByName("GetServer"),
		&registryv1.GetServerRequest{Server: "alpha"})
	return err
}

func (a asker) list(ctx context.Context, q *registryv1.ListInstancesRequest) error {
	r, err := call[*registryv1.ListInstancesResponse](ctx, a, "ListInstances", q)
	if err == nil && len(r.Instances) == 0 {
		return fmt.Errorf("no instance matches %v", q)
	}
	return err
}

// pages returns a question for the next page of a list, from its beginning again behind its end.
func (a asker) pages(q *registryv1.ListInstancesRequest) func(context.Context, int) error {
	cursor := ""
	return func(ctx context.Context, _ int) error {
		q.Page = &apiv1.Page{Limit: pageRows, Cursor: cursor}
		r, err := call[*registryv1.ListInstancesResponse](ctx, a, "ListInstances", q)
		cursor = r.GetNextCursor()
		if err == nil && len(r.Instances) == 0 {
			return fmt.Errorf("no instance matches %v", q)
		}
		return err
	}
}

func (a asker) count(of *registryv1.ListInstancesRequest, by []string) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		r, err := call[*registryv1.CountInstancesResponse](ctx, a, "CountInstances",
			&registryv1.CountInstancesRequest{Filter: of, By: by})
		if err == nil && len(r.GetCounts().GetGroups()) == 0 {
			return fmt.Errorf("no groups by %v", by)
		}
		return err
	}
}

// explain asks the registry what the CLI asks it for an explanation of a server: its record, and then the rest at once.
func (a asker) explain(ctx context.Context, server string) error {
	_, err := call[*registryv1.GetServerResponse](ctx, a, "GetServer", &registryv1.GetServerRequest{Server: server})
	if err != nil {
		return err
	}
	asked := []func() error{
		func() error { return a.list(ctx, &registryv1.ListInstancesRequest{Server: server}) },
		func() error {
			_, err := call[*registryv1.CheckFleetResponse](ctx, a, "CheckFleet", &registryv1.CheckFleetRequest{
				On: &intentv1.Selector{Servers: []string{server}}, Page: &apiv1.Page{Limit: pageRows},
			})
			return err
		},
		func() error {
			_, err := call[*registryv1.ListDefaultsResponse](ctx, a, "ListDefaults",
				&registryv1.ListDefaultsRequest{Server: server})
			return err
		},
	}
	answers := make(chan error, len(asked))
	for _, ask := range asked {
		go func() { answers <- ask() }()
	}
	for range asked {
		err = errors.Join(err, <-answers)
	}
	return err
}

// How often a question is asked, and for how long at most.
const (
	askedTimes = 1000
	askedFor   = 15 * time.Second
)

// repeated asks a question again and again, and returns the sorted times in milliseconds.
func repeated(b *testing.B, ask func(context.Context, int) error) []float64 {
	for n := range 5 { // to warm up
		check(b, ask(b.Context(), n))
	}
	var took []float64
	for begin := time.Now(); len(took) < askedTimes && time.Since(begin) < askedFor; {
		started := time.Now()
		check(b, ask(b.Context(), len(took)))
		took = append(took, time.Since(started).Seconds()*1000)
	}
	slices.Sort(took)
	return took
}

// at returns a percentile of sorted values.
func at(sorted []float64, percent int) float64 { return sorted[(len(sorted)-1)*percent/100] }
