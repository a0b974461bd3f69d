package operator

import (
	"path"
	"slices"
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// candidates answers what a scan of web-1 found. web-2 was never scanned.
func (f *fakes) candidates(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListCandidates",
		func(q *registryv1.ListCandidatesRequest) (*registryv1.ListCandidatesResponse, error) {
			if q.GetServer() != "web-1" {
				return nil, fault.Refuse(fault.NotFound, &apiv1.Refusal{
					Code: "NOT_SCANNED", Message: "server web-2 reported no candidates",
					Try: "garrison server scan web-2",
				})
			}
			found := slices.DeleteFunc(scanned(), func(c *serverv1.Candidate) bool {
				is, _ := path.Match(q.GetName(), c.Name)
				return q.GetName() != "" && !is || q.GetListening() && len(c.Sockets) == 0 ||
					q.GetDetector() != "" && q.GetDetector() != c.Detector
			})
			return &registryv1.ListCandidatesResponse{
				Candidates: found,
				Detections: []*serverv1.Detection{
					{Detector: "dpkg", Listed: 1, More: 12}, {Detector: "legacy", Reason: "exit status 3"},
				},
			}, nil
		})
}

func scanned() []*serverv1.Candidate {
	process := func(id, name string, pid uint32) *serverv1.Candidate {
		return &serverv1.Candidate{
			Id: id, Detector: "process", Kind: serverv1.CandidateKind_CANDIDATE_KIND_PROCESS, Name: name, Pid: pid,
			User: "root", Sockets: []string{"tcp 0.0.0.0:80"}, Exe: "/usr/sbin/" + name,
			Args: []string{name, "--token=***"},
		}
	}
	served := process("process/13-103", "metrics", 13)
	served.Unit = "metrics.service"
	unit := process("unit/metrics.service", "metrics.service", 13)
	unit.Detector, unit.Kind, unit.Unit = "systemd", serverv1.CandidateKind_CANDIDATE_KIND_UNIT, served.Unit
	return []*serverv1.Candidate{
		{
			Id: "dpkg/nginx", Detector: "dpkg", Kind: serverv1.CandidateKind_CANDIDATE_KIND_PACKAGE, Name: "nginx",
			Version: "1.22.1-9", Files: []string{"/usr/sbin/nginx"}, FilesMore: 4,
		},
		process("process/10-100", "nginx", 10), process("process/11-101", "nginx", 11),
		process("process/12-102", "redis", 12), served, unit,
	}
}
