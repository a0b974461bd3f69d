package reports

import (
	"slices"
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestCandidatesAreFoundByNameDetectorAndSockets(t *testing.T) {
	t.Parallel()
	all := []*serverv1.Candidate{
		{Id: "a", Name: "nginx", Detector: "systemd", Sockets: []string{"tcp :80"}}, {Id: "b", Name: "ngrok"},
	}
	for name, c := range map[string]struct {
		q    *registryv1.ListCandidatesRequest
		want []string
	}{
		"all":             {&registryv1.ListCandidatesRequest{}, []string{"a", "b"}},
		"by name":         {&registryv1.ListCandidatesRequest{Name: "ng*x"}, []string{"a"}},
		"by detector":     {&registryv1.ListCandidatesRequest{Detector: "systemd"}, []string{"a"}},
		"that listen":     {&registryv1.ListCandidatesRequest{Listening: true}, []string{"a"}},
		"behind a cursor": {&registryv1.ListCandidatesRequest{Page: &apiv1.Page{Cursor: "a"}}, []string{"b"}},
	} {
		var have []string
		for id := range matching(all, c.q) {
			have = append(have, id)
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: %v; want %v", name, have, c.want)
		}
	}
}
