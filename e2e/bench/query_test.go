package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// callers is how many callers ask at once: fewer than an actor may have requests under way.
const callers = 8

// BenchmarkQuery compares a call of the registry about one server with a call of an empty
// service, both from an operator's account, by several callers at once.
func BenchmarkQuery(b *testing.B) {
	w := busOnly(b, rig.Options{})
	w.serve(topology.UserRegistry)
	w.ok("server", "enroll", "alpha")
	w.echo()
	a := asker{w.operator()}
	query := func(ctx context.Context) error {
		_, err := call[*registryv1.GetServerResponse](ctx, a, "GetServer",
			&registryv1.GetServerRequest{Server: "alpha"})
		return err
	}
	n := asked.scaled(40_000)
	var ours, limits, oursP99, limitsP99 []float64
	for range rounds {
		rate, p99 := load(b, n, a.echo)
		limits, limitsP99 = append(limits, rate), append(limitsP99, p99)
		rate, p99 = load(b, n, query)
		ours, oursP99 = append(ours, rate), append(oursP99, p99)
	}
	report(b, figure{
		fmt.Sprintf("query of one server, requests/s, %d callers", callers), spread(ours, "%.0f"),
		"empty micro echo: " + spread(limits, "%.0f"), ratio(median(ours), median(limits)), ">= 0.7",
	}, figure{
		"query of one server, p99 ms", spread(oursP99, "%.1f"), "empty micro echo: " + spread(limitsP99, "%.1f"),
		ratio(median(oursP99), median(limitsP99)), "<= 2",
	})
}

// echoing is the service that echo stands in for: its methods are exported to people.
const echoing = topology.UserCatalog

// echo serves empty answers from this process in place of a service that does not run.
func (w *world) echo() {
	nc := w.unlimited(topology.AccountOf(echoing))
	service := must(micro.AddService(nc, micro.Config{Name: "echo", Version: "0.0.1"}))(w.b)
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.Respond(nil) })
	check(w.b, service.AddEndpoint("GetServer", answer,
		micro.WithEndpointSubject(topology.APISubject(echoing, "read", "get-server", "*"))))
}

// load sends n requests from several callers at once. It returns the requests per second and the p99 in milliseconds.
func load(b *testing.B, n int, ask func(context.Context) error) (rate, p99 float64) {
	took := make([][]float64, callers)
	var wg sync.WaitGroup
	seconds := timed(func() {
		for c := range callers {
			wg.Go(func() {
				for range n / callers {
					at := time.Now()
					if err := ask(b.Context()); err != nil {
						b.Error(err)
						return
					}
					took[c] = append(took[c], time.Since(at).Seconds()*1000)
				}
			})
		}
		wg.Wait()
	})
	if b.Failed() {
		b.FailNow()
	}
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return float64(len(all)) / seconds, at(all, 99)
}
