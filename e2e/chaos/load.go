package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/pkg/client"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// publishEvery is the pace of the load: 2.5 intents a second.
const publishEvery = 400 * time.Millisecond

// publishWithin bounds the tries to publish an intent.
const publishWithin = 5 * time.Second

// load publishes intents until the round's load is over.
func (w *World) load(ctx context.Context, r Round) {
	ctx, cancel := context.WithTimeout(ctx, r.Load)
	defer cancel()
	random := rand.New(rand.NewPCG(r.Seed, 2))
	load.Every(ctx, publishEvery, func(int) {
		if random.IntN(12) == 0 {
			w.cancelOne(ctx)
			return
		}
		intent, twice := w.draw(random), random.IntN(8) == 0
		w.publish(context.WithoutCancel(ctx), intent, twice)
	})
}

// draw chooses an intent.
func (w *World) draw(random *rand.Rand) (json string) {
	on := w.drawServers(random)
	agent := []string{beacon, tuner}[random.IntN(2)]
	version := goodVersions[random.IntN(len(goodVersions))]
	switch n := random.IntN(20); {
	case n < 8:
		if agent == beacon && random.IntN(4) == 0 {
			version = []string{"3.1.0", "3.2.0"}[random.IntN(2)]
		}
		return fmt.Sprintf(`{"upgrade":{"agent":%q,"image":{"version":%q},"on":%s}}`, agent,
			version, on)
	case n < 12:
		return fmt.Sprintf(`{"install":{"agent":%q,"image":{"version":%q},"on":%s}}`, agent,
			version, on)
	case n < 15:
		level := random.IntN(1000)
		return fmt.Sprintf(`{"configure":{"agent":%q,"set":{"level":"%d"},"on":%s}}`, tuner,
			level, on)
	case n < 17:
		return fmt.Sprintf(`{"remove":{"agent":%q,"on":%s}}`, agent, on)
	default:
		return fmt.Sprintf(`{"refresh":{"on":%s}}`, on)
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
func (w *World) staying() []*rig.Server {
	return slices.DeleteFunc(w.Servers(), func(s *rig.Server) bool { return strings.HasPrefix(s.Name, guestPrefix) })
}

// publish publishes an intent, which is JSON, or twice the same one, which must be decided once.
func (w *World) publish(ctx context.Context, json string, twice bool) (acknowledged bool) {
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	var intent intentv1.Intent
	if err := protojson.Unmarshal([]byte(json), &intent); err != nil {
		panic(fmt.Sprintf("%s: %v", json, err))
	}
	id, acknowledged := w.Intents.Publish(ctx, &intent)
	if twice {
		_ = w.client.Publish(ctx, id, &intent) // the bus may be away
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

// guestPrefix begins the names of servers that come and go.
const guestPrefix = "g"

// inviteGuest adds a server that a later round decommissions, with both agents.
func (w *World) inviteGuest(ctx context.Context) error {
	w.guest++
	name := guestPrefix + strconv.Itoa(w.guest)
	if err := w.addServer(ctx, name); err != nil {
		return err
	}
	for _, agent := range []string{beacon, tuner} {
		json := fmt.Sprintf(`{"install":{"agent":%q,"image":{"version":%q},"on":{"servers":[%q]}}}`, agent,
			goodVersions[0], name)
		w.publish(ctx, json, false)
	}
	return nil
}

func (w *World) guests() []*rig.Server {
	return slices.DeleteFunc(w.Servers(), func(s *rig.Server) bool { return !strings.HasPrefix(s.Name, guestPrefix) })
}

// dismissGuest asks for the end of the oldest guest, until the bus takes it.
func (w *World) dismissGuest(ctx context.Context) (leaving *rig.Server) {
	guests := w.guests()
	if len(guests) == 0 {
		return nil
	}
	json := fmt.Sprintf(`{"decommission":{"server":%q}}`, guests[0].Name)
	for ctx.Err() == nil && !w.publish(ctx, json, false) {
		continue
	}
	return guests[0]
}

// left reports what is left of a server that was to go, or nil.
func (w *World) left(s *rig.Server) error {
	if s.Joined() {
		return fmt.Errorf("%s is still there", s.Name)
	}
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return fmt.Errorf("%s left the processes %v (%v)", s.Name, pids, err)
	}
	files, err := list(s.Root)
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "executor/tombstone.json") })
	if err != nil || len(files) > 0 {
		return fmt.Errorf("%s left %v (%v)", s.Name, files, err)
	}
	return nil
}
