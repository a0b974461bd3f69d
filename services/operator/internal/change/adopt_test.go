package change

import (
	"slices"
	"testing"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAServiceAndItsProcessesAreOneCandidate(t *testing.T) {
	process, unit := serverv1.CandidateKind_CANDIDATE_KIND_PROCESS, serverv1.CandidateKind_CANDIDATE_KIND_UNIT
	all := []*serverv1.Candidate{
		{Id: "dpkg/nginx", Kind: serverv1.CandidateKind_CANDIDATE_KIND_PACKAGE, Name: "nginx"},
		{Id: "process/10-1", Kind: process, Name: "nginx", Pid: 10, Unit: "nginx.service"},
		{Id: "process/11-1", Kind: process, Name: "nginx", Pid: 11, Unit: "nginx.service"},
		{Id: "process/12-1", Kind: process, Name: "redis", Pid: 12, Unit: "session-1.scope"},
		{Id: "unit/nginx.service", Kind: unit, Name: "nginx.service", Pid: 10, Unit: "nginx.service"},
		{Id: "unit/ended.service", Kind: unit, Name: "ended.service", Unit: "ended.service"},
	}
	for text, want := range map[string][]string{
		"nginx": {"unit/nginx.service"}, "nginx.service": {"unit/nginx.service"}, "11": {"unit/nginx.service"},
		"redis": {"process/12-1"}, "ended": nil, "ended.service": nil,
	} {
		match, names := candidatesNamed(all, text)
		if !slices.Equal(match, want) || len(names) != 4 {
			t.Errorf("%q names %v of %v, want %v", text, match, names, want)
		}
	}
}
