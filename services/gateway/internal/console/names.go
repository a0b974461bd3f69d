package console

import (
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// nameServers fetches the names of servers, by which the cells of a page call them. One that is forgotten has none.
func (v *visit) nameServers(ids []string) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
	if len(ids) == 0 {
		return nil
	}
	r, err := client.Call[*registryv1.ListServersResponse](v.Context(), v.client, &registryv1.ListServersRequest{
		Page: &apiv1.Page{Limit: rowsShown}, On: &intentv1.Selector{Servers: ids[:min(len(ids), rowsShown)]},
	})
	if err != nil {
		return err
	}
	v.names = map[string]string{}
	for _, s := range r.GetServers() {
		v.names[s.GetId()] = s.GetName()
	}
	return nil
}

// nameServersOf fetches the names of the servers of rows.
func nameServersOf[T any](v *visit, rows []T, server func(T) string) error {
	var ids []string
	for _, row := range rows {
		ids = append(ids, server(row))
	}
	return v.nameServers(ids)
}
