package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// publishEvery is the pace of the load: 2.5 intents a second.
const publishEvery = 400 * time.Millisecond

// load publishes intents until the round's load is over.
func (w *World) load(ctx context.Context, r Round) {
	random := rand.New(rand.NewPCG(r.Seed, 2))
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	end := time.After(r.Load)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-tick.C:
			if random.IntN(12) == 0 {
				w.cancelOne(ctx)
				continue
			}
			verb, json := w.draw(random)
			w.publish(ctx, verb, json, random.IntN(8) == 0)
		}
	}
}

// draw chooses an intent.
func (w *World) draw(random *rand.Rand) (verb, json string) {
	on := w.drawServers(random)
	agent := []string{beacon, tuner}[random.IntN(2)]
	version := goodVersions[random.IntN(len(goodVersions))]
	switch n := random.IntN(20); {
	case n < 8:
		if agent == beacon && random.IntN(4) == 0 {
			version = []string{"3.1.0", "3.2.0"}[random.IntN(2)]
		}
		return topology.VerbUpgrade, fmt.Sprintf(`{"upgrade":{"agent":%q,"image":{"version":%q},"on":%s}}`, agent,
			version, on)
	case n < 12:
		return topology.VerbInstall, fmt.Sprintf(`{"install":{"agent":%q,"image":{"version":%q},"on":%s}}`, agent,
			version, on)
	case n < 15:
		level := random.IntN(1000)
		return topology.VerbConfigure, fmt.Sprintf(`{"configure":{"agent":%q,"set":{"level":"%d"},"on":%s}}`, tuner,
			level, on)
	case n < 17:
		return topology.VerbRemove, fmt.Sprintf(`{"remove":{"agent":%q,"on":%s}}`, agent, on)
	default:
		return topology.VerbRefresh, fmt.Sprintf(`{"refresh":{"on":%s}}`, on)
	}
}

// drawServers returns a selector: everything, or some servers by name.
func (w *World) drawServers(random *rand.Rand) string {
	if random.IntN(3) == 0 {
		return `{"all":true}`
	}
	var names []string
	for _, s := range w.staying() {
		if random.IntN(2) == 0 {
			names = append(names, fmt.Sprintf("%q", s.Name))
		}
	}
	if len(names) == 0 {
		return `{"all":true}`
	}
	return `{"servers":[` + strings.Join(names, ",") + `]}`
}

// staying returns the servers that stay for all rounds.
func (w *World) staying() []*fleet.Server {
	return slices.DeleteFunc(w.Servers(), func(s *fleet.Server) bool { return strings.HasPrefix(s.Name, guestPrefix) })
}

// publish publishes an intent, or twice the same one, which must be decided once.
func (w *World) publish(ctx context.Context, verb, json string, twice bool) (acknowledged bool) {
	id := ident.New()
	times := 1
	if twice {
		times = 2
	}
	for range times {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := w.conn.PublishDurable(once, bus.Durable{
			Subject: topology.IntentSubject(verb, w.conn.Name(), id), Type: "application/json", Data: []byte(json),
		})
		cancel()
		acknowledged = acknowledged || err == nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	if acknowledged {
		w.acknowledged = append(w.acknowledged, id)
	}
	return acknowledged
}

// cancelOne cancels a task that is still queued, if there is one. It ignores the answer:
// the task may begin meanwhile, or its service may be down.
func (w *World) cancelOne(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	open, err := w.openTasks(once)
	if err != nil {
		return
	}
	for _, t := range open {
		if t.State == taskv1.State_STATE_QUEUED {
			q := &dispatcherv1.CancelTaskRequest{Task: t.Id, Reason: "chaos"}
			_, _ = client.Call[*dispatcherv1.CancelTaskResponse](once, w.client, q)
			return
		}
	}
}

// counts returns how many intents were published and how many of them acknowledged.
func (w *World) counts() (sent, acknowledged int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, len(w.acknowledged)
}
