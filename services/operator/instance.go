package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
		{title: "CONFIRMED", wide: true, value: confirmedAt},
		{title: "GENERATION", wide: true, value: func(_ view, r instance) string { return count(r.GetInstance().GetGeneration()) }},
		{title: "ID", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetId() }},
		{title: "SERVER-ID", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetServerId() }},
		{title: "IMAGE", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetWanted().GetId() }},
		{title: "TASK", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetTaskId() }},
		{title: "INTENT", wide: true, value: func(_ view, r instance) string { return r.GetInstance().GetIntentId() }},
	},
}

// confirmedAt returns until when what was observed is known to have been true.
func confirmedAt(_ view, r instance) string { return stamp(r.GetInstance().GetConfirmedAt()) }

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
	return group("instance", "Which agent is wanted, and found, on which server", s.instanceListCommand(), s.instanceShowCommand())
}

func (s *session) instanceListCommand() *cobra.Command {
	var page pageFlags
	var on selectorFlags
	q := &registryv1.ListInstancesRequest{}
	c := &cobra.Command{
		Use: "list [AGENT]", Short: "List instances", Args: atMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				q.Agent = a[0]
			}
			var err error
			if q.On, err = on.filter(); err != nil {
				return err
			}
			return list(c.Context(), s, page, instanceListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListInstancesResponse, error) {
				q.Page = p
				return call[*registryv1.ListInstancesResponse](ctx, s, "ListInstances", q)
			})
		},
	}
	page.add(c, 0)
	on.add(c)
	textVar(c.Flags(), &q.Server, "server", aServer, "only on this `SERVER`")
	textVar(c.Flags(), &q.Agent, "agent", aName("agent"), "only of this `AGENT`")
	textVar(c.Flags(), &q.ImageId, "image", anID("image"), "only those that want or have this image, by `ID`")
	textVar(c.Flags(), &q.Environment, "env", aName("environment"), "only on servers of this `ENVIRONMENT`")
	wordVar(c.Flags(), &q.State, "state", "only in this `STATE`")
	return c
}

func (s *session) instanceShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show SERVER AGENT", Short: "Show everything about an instance, its configuration too", Args: exactly("SERVER", "AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			rows, err := s.listInstances(c.Context(), &registryv1.ListInstancesRequest{Server: a[0], Agent: a[1]})
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return refuse(fault.NotFound, &apiv1.Refusal{
					Code: "NO_INSTANCES", Message: fmt.Sprintf("server %q has no instance of agent %q", a[0], a[1]), Try: "garrison instance list --server " + a[0],
				})
			}
			have := rows[0].GetInstance()
			return showOne(s, s.view(), instanceListing, rows[0],
				[2]string{"METADATA", lines(have.GetConfiguration().GetMetadata())},
				[2]string{"OWN", lines(have.GetConfiguration().GetOwn())},
				[2]string{"CONFIGURATION", fmt.Sprintf("%.8x", have.GetConfiguration().GetDigest())},
				[2]string{"FOUND-CONFIGURATION", fmt.Sprintf("%.8x", have.GetObservedConfigurationDigest())})
		},
	}
}

// lines writes values one under another.
func lines(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, "\n")
}

// listInstances reads all instances that a request filters.
func (s *session) listInstances(ctx context.Context, q *registryv1.ListInstancesRequest) ([]instance, error) {
	r, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListInstancesResponse, error) {
		q.Page = p
		return call[*registryv1.ListInstancesResponse](ctx, s, "ListInstances", q)
	})
	return r.GetInstances(), err
}
