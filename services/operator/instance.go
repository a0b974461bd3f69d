package operator

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

type instance = *registryv1.InstanceRow

var instanceListing = listing[instance]{
	name: func(r instance) string { return r.GetServerName() + "/" + r.GetInstance().GetAgent() },
	columns: []column[instance]{
		{title: "SERVER", value: func(_ view, r instance) string { return r.GetServerName() }},
		{title: "AGENT", value: func(_ view, r instance) string { return r.GetInstance().GetAgent() }},
		{title: "WANTED", value: func(_ view, r instance) string { return r.GetInstance().GetWanted().GetVersion() }},
		{title: "FOUND", value: func(_ view, r instance) string { return r.GetInstance().GetObserved().GetVersion() }},
		{title: "HEALTH", value: func(_ view, r instance) string { return word(r.GetInstance().GetHealth()) }},
		{title: "STATE", value: func(_ view, r instance) string { return word(r.GetInstance().GetState()) }},
		{title: "SINCE", value: func(v view, r instance) string { return age(v, r.GetInstance().GetSince()) }, key: func(r instance) string { return stamp(r.GetInstance().GetSince()) }},
		{title: "NEXT", value: instanceNext},
		{title: "REASON", value: func(_ view, r instance) string { return r.GetInstance().GetReason() }},
		{title: "PRESENCE", wide: true, value: func(_ view, r instance) string { return word(r.GetPresence()) }},
		{title: "GENERATION", wide: true, value: func(_ view, r instance) string { return count(r.GetInstance().GetGeneration()) }},
		{title: "ID", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetId() }},
		{title: "SERVER-ID", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetServerId() }},
		{title: "IMAGE", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetWanted().GetId() }},
		{title: "TASK", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetTaskId() }},
		{title: "INTENT", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetIntentId() }},
	},
}

// instanceNext says what happens next, or what an operator can do.
func instanceNext(_ view, r instance) string {
	i := r.GetInstance()
	away := r.GetPresence() != serverv1.Presence_PRESENCE_ONLINE
	switch i.GetState() {
	case instancev1.State_STATE_PENDING, instancev1.State_STATE_REMOVING:
		if away {
			return "server comes back"
		}
		if i.GetTaskId() != "" {
			return "task " + ident.Short(i.GetTaskId())
		}
		return "task"
	case instancev1.State_STATE_FAILED, instancev1.State_STATE_DRIFTED:
		if i.GetTaskId() != "" {
			return "garrison task show " + ident.Short(i.GetTaskId())
		}
		return "garrison up " + i.GetAgent()
	}
	return ""
}

func (s *session) instanceCommands() *cobra.Command {
	return group("instance", "Which agent is wanted, and found, on which server", s.instanceListCommand())
}

func (s *session) instanceListCommand() *cobra.Command {
	var page pageFlags
	var state string
	q := &registryv1.ListInstancesRequest{}
	c := &cobra.Command{
		Use: "list [AGENT]", Short: "List instances", Args: atMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			if len(a) > 0 {
				q.Agent = a[0]
			}
			if q.State, err = parseWord[instancev1.State]("--state", state); err != nil {
				return err
			}
			return list(c.Context(), s, page, instanceListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListInstancesResponse, error) {
				q.Page = p
				return call[*registryv1.ListInstancesResponse](ctx, s, "ListInstances", q)
			})
		},
	}
	page.add(c, 0)
	c.Flags().StringVar(&q.Server, "server", "", "only on this `SERVER`")
	c.Flags().StringVar(&q.Agent, "agent", "", "only of this `AGENT`")
	c.Flags().StringVar(&q.ImageId, "image", "", "only those that want or have this image, by `ID`")
	c.Flags().StringVar(&q.Environment, "env", "", "only on servers of this `ENVIRONMENT`")
	c.Flags().StringVar(&state, "state", "", "only in this `STATE`: "+strings.Join(words(instancev1.State(0).Descriptor()), ", "))
	return c
}

// listInstances reads all instances that a request filters.
func (s *session) listInstances(ctx context.Context, q *registryv1.ListInstancesRequest) ([]instance, error) {
	r, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListInstancesResponse, error) {
		q.Page = p
		return call[*registryv1.ListInstancesResponse](ctx, s, "ListInstances", q)
	})
	return r.GetInstances(), err
}

// has gives the image that an instance is found at or, before it was found, wanted at.
func has(i *instancev1.Instance) *imagev1.Ref {
	if i.GetObserved() != nil {
		return i.GetObserved()
	}
	return i.GetWanted()
}
