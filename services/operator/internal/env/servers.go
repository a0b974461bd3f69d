package env

import (
	"context"
	"fmt"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// serversShown is how many servers of an environment are named.
const serversShown = 20

// showServers names the servers of an environment that are not dead, and how many more there are.
func showServers(ctx context.Context, env *cli.Env, e environment) ([][2]string, error) {
	filter := &registryv1.ListServersRequest{Environment: e.GetName()}
	counted, err := cli.Call[*registryv1.CountServersResponse](ctx, env,
		&registryv1.CountServersRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	listed, err := cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{
		Environment: e.GetName(), Page: &apiv1.Page{Limit: serversShown},
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range listed.GetServers() {
		names = append(names, s.GetName())
	}
	total := int(counted.GetCounts().GetTotal())
	text := ""
	if total > 0 {
		text = fmt.Sprintf("%d: %s", total, strings.Join(names, ", "))
	}
	if total > len(names) {
		text += fmt.Sprintf(" and %d more\ngarrison server list --env %s", total-len(names), e.GetName())
	}
	return [][2]string{{"SERVERS", text}}, nil
}
