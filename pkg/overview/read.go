package overview

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// versionsRead is how many pairs of an agent and a version are read; the others are counted.
const versionsRead = 1000

// answers is what the services answered.
type answers struct {
	at                     time.Time
	certificateUntil       time.Time // until when the bus's certificate is valid; zero without one
	servers, leaked, found *registryv1.CountServersResponse
	keyless                *registryv1.CountServersResponse // those that take unsigned images, and should not
	expired                *registryv1.CountServersResponse // those whose invitation expired
	busy                   *registryv1.CountServersResponse // those in a critical section
	defaults               *registryv1.CountServersResponse // those on which a default waits
	presence               *registryv1.ListServersResponse
	writers                *registryv1.ListWritersResponse // users over their budget of the ledger
	restored               *accessv1.GetRestoredResponse
	bus                    *accessv1.GetBusResponse
	versions, states       *registryv1.CountInstancesResponse
	healed                 *registryv1.CountInstancesResponse // those that drifted, by who repairs them
	tasks, slow            *dispatcherv1.CountTasksResponse
	holds                  *registryv1.ListRecordsResponse
	ahead                  *registryv1.GetRestoreStatusResponse
	unknown                *registryv1.ListUnknownServersResponse
	lobby                  *registryv1.ListLobbyResponse
	environments           *registryv1.ListRecordsResponse
	blocks, suspected      *registryv1.ListRecordsResponse   // builds that are blocked, and others that failed
	untrusted              *catalogv1.ListImagesResponse     // active images that no key of the catalog signed
	stale                  *registryv1.ListInstancesResponse // external instances that no report listed in time
	rollouts               *registryv1.ListRolloutsResponse  // those that are halted, paused or running
	owing                  *registryv1.ListRolloutsResponse  // those that succeeded and owe servers their change
	immovable              []string                          // environments whose keep budget lets no server change
}

// Read asks the services side by side about the servers that a selector means, or about all with nil. What grows with
// the fleet is counted at the services; of the lists that do not, and of the servers that are ahead after a restore,
// every part is read.
func Read(ctx context.Context, c *client.Client, on *intentv1.Selector, at time.Time) (Fleet, error) {
	a, err := read(ctx, c, on, at)
	return fleetOf(a), err
}

func read(ctx context.Context, c *client.Client, on *intentv1.Selector, at time.Time) (answers, error) {
	a := answers{at: at}
	a.certificateUntil = client.CertificateUntil(c)
	g, asking := errgroup.WithContext(ctx)
	a.askAboutServers(asking, g, c, on)
	if on == nil {
		a.askAboutSite(asking, g, c)
	}
	if err := g.Wait(); err != nil {
		return a, err
	}
	if err := a.findHealed(ctx, c, on); err != nil {
		return a, err
	}
	return a, a.findImmovable(ctx, c)
}

// findHealed counts, where instances drifted, those that their executors repair by themselves.
func (a *answers) findHealed(ctx context.Context, c *client.Client, on *intentv1.Selector) (err error) {
	drifted := func(g *registryv1.CountGroup) bool { return g.GetValues()[0] == "drifted" }
	if !slices.ContainsFunc(a.states.GetCounts().GetGroups(), drifted) {
		return nil
	}
	a.healed, err = client.Call[*registryv1.CountInstancesResponse](ctx, c, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{On: on, State: instancev1.State_STATE_DRIFTED},
		By:     []string{"drift", "health"}, Top: 10,
	})
	return err
}

// askAboutServers asks what a selector narrows.
func (a *answers) askAboutServers(ctx context.Context, g *errgroup.Group, c *client.Client, on *intentv1.Selector) {
	count := func(to **registryv1.CountServersResponse, filter *registryv1.ListServersRequest, by ...string) {
		filter.On = on
		ask(ctx, g, c, to, &registryv1.CountServersRequest{Filter: filter, By: by, Top: 1000})
	}
	count(&a.servers, &registryv1.ListServersRequest{}, "life", "presence", "standing", "trouble")
	count(&a.busy, &registryv1.ListServersRequest{Condition: serverv1.ExecutorState_EXECUTOR_STATE_BUSY})
	count(&a.expired, &registryv1.ListServersRequest{Trouble: code.ExpiredToken})
	count(&a.keyless, &registryv1.ListServersRequest{Trouble: code.NoImageKeys})
	count(&a.leaked, &registryv1.ListServersRequest{Leaked: true})
	count(&a.found, &registryv1.ListServersRequest{Found: true})
	count(&a.defaults, &registryv1.ListServersRequest{WaitsForDefault: true})
	ask(ctx, g, c, &a.presence, &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1}})
	instances := &registryv1.ListInstancesRequest{On: on}
	ask(ctx, g, c, &a.versions, &registryv1.CountInstancesRequest{
		Filter: instances, By: []string{"agent", "version"}, Top: versionsRead,
	})
	ask(ctx, g, c, &a.states, &registryv1.CountInstancesRequest{
		Filter: instances, By: []string{"state", "health", "presence"}, Top: 1000,
	})
	collect(ctx, g, c, &a.stale, &registryv1.ListInstancesRequest{Stale: true, WithExternal: true, On: on})
	collect(ctx, g, c, &a.holds, &registryv1.ListRecordsRequest{Noun: string(ledger.Hold), On: on})
	collect(ctx, g, c, &a.ahead, &registryv1.GetRestoreStatusRequest{On: on})
}

// askAboutSite asks what knows no servers by selector.
func (a *answers) askAboutSite(ctx context.Context, g *errgroup.Group, c *client.Client) {
	under := []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING}
	ask(ctx, g, c, &a.tasks, &dispatcherv1.CountTasksRequest{
		Filter: &dispatcherv1.ListTasksRequest{States: under}, By: []string{"state"},
	})
	ask(ctx, g, c, &a.slow, &dispatcherv1.CountTasksRequest{Filter: &dispatcherv1.ListTasksRequest{Slow: true}})
	collect(ctx, g, c, &a.writers, &registryv1.ListWritersRequest{Over: true})
	ask(ctx, g, c, &a.restored, &accessv1.GetRestoredRequest{})
	g.Go(func() (err error) { // a bus whose servers do not say how they are is one thing to look at, among others
		if a.bus, err = client.Call[*accessv1.GetBusResponse](ctx, c, &accessv1.GetBusRequest{}); err != nil {
			a.bus = &accessv1.GetBusResponse{Alarms: []*accessv1.BusAlarm{{Cause: "its state is not known"}}}
		}
		return ctx.Err()
	})
	ask(ctx, g, c, &a.unknown, &registryv1.ListUnknownServersRequest{})
	collect(ctx, g, c, &a.lobby, &registryv1.ListLobbyRequest{})
	collect(ctx, g, c, &a.environments, record.List(ledger.Environment))
	collect(ctx, g, c, &a.blocks, record.List(ledger.Block))
	collect(ctx, g, c, &a.suspected, &registryv1.ListRecordsRequest{Noun: string(ledger.Block), Suspected: true})
	collect(ctx, g, c, &a.untrusted, &catalogv1.ListImagesRequest{
		State: imagev1.State_STATE_ACTIVE, Untrusted: true,
	})
	collect(ctx, g, c, &a.rollouts, &registryv1.ListRolloutsRequest{States: []rolloutv1.State{
		rolloutv1.State_STATE_HALTED, rolloutv1.State_STATE_PAUSED, rolloutv1.State_STATE_RUNNING,
	}})
	collect(ctx, g, c, &a.owing, &registryv1.ListRolloutsRequest{
		States: []rolloutv1.State{rolloutv1.State_STATE_SUCCEEDED}, Owing: true,
	})
}

// findImmovable finds the environments in which a keep budget lets no server change.
func (a *answers) findImmovable(ctx context.Context, c *client.Client) error {
	for _, e := range a.environments.GetEnvironments() {
		notes, err := Immovable(ctx, c, e)
		if err != nil {
			return err
		}
		if len(notes) > 0 {
			a.immovable = append(a.immovable, e.GetName())
		}
	}
	return nil
}

// ask sends a request in a goroutine of the group.
func ask[R proto.Message](ctx context.Context, g *errgroup.Group, c *client.Client, to *R, q proto.Message) {
	g.Go(func() (err error) {
		*to, err = client.Call[R](ctx, c, q)
		return err
	})
}

// collect reads every part of a list in a goroutine of the group.
func collect[R client.Part](ctx context.Context, g *errgroup.Group, c *client.Client, to *R, q proto.Message) {
	g.Go(func() (err error) {
		*to, err = client.Collect[R](ctx, c, q, 0)
		return err
	})
}

// braked returns the names of the environments in which healing is braked.
func braked(all []*environmentv1.Environment) (names []string) {
	for _, e := range all {
		if e.GetBraked() != nil {
			names = append(names, e.GetName())
		}
	}
	return names
}
