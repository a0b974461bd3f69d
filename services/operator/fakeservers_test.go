package operator

import (
	"path"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func servers() []*serverv1.Server {
	linux := &serverv1.Sysinfo{
		Platform:        &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Hostname:        "web-1",
		ExecutorVersion: "v1.0.0",
	}
	return []*serverv1.Server{
		{
			Id:          web1,
			Name:        "web-1",
			Cell:        "main",
			Life:        serverv1.Life_LIFE_ALIVE,
			Presence:    serverv1.Presence_PRESENCE_ONLINE,
			Since:       ago(5 * time.Minute),
			Labels:      map[string]string{"rack": "a"},
			Environment: "prod",
			Sysinfo:     linux,
		},
		{
			Id:       web2,
			Name:     "web-2",
			Cell:     "main",
			Life:     serverv1.Life_LIFE_ALIVE,
			Presence: serverv1.Presence_PRESENCE_OFFLINE,
			Since:    ago(3 * time.Hour),
			Reason:   "no beat for 15s",
			Labels:   map[string]string{"rack": "b"},
			Sysinfo:  linux,
		},
	}
}

func leaving() []*serverv1.Server { return append(dying(), dead()...) }

func dying() []*serverv1.Server {
	return []*serverv1.Server{
		{
			Id:       ident.From("old-1"),
			Name:     "old-1",
			Life:     serverv1.Life_LIFE_DYING,
			Presence: serverv1.Presence_PRESENCE_ONLINE,
			Since:    ago(time.Hour),
			Duties: []*serverv1.Duty{
				{
					Kind:   serverv1.DutyKind_DUTY_KIND_AGENT,
					Agent:  "cron",
					TaskId: web1,
					Since:  ago(time.Minute),
					Reason: "it did not end",
				},
				{Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: "web", Since: ago(time.Minute)},
			},
		},
		{
			Id:       ident.From("old-2"),
			Name:     "old-2",
			Life:     serverv1.Life_LIFE_DYING,
			Presence: serverv1.Presence_PRESENCE_OFFLINE,
			Since:    ago(time.Hour),
			Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_PRESENCE, Since: ago(time.Hour), Reason: "no beat arrives"},
			},
		},
	}
}

func dead() []*serverv1.Server {
	return []*serverv1.Server{
		{
			Id:        ident.From("gone-1"),
			Name:      "gone-1",
			Life:      serverv1.Life_LIFE_DEAD,
			Ownership: serverv1.Ownership_OWNERSHIP_MANUAL,
			Since:     ago(time.Hour),
			Tombstone: tombstone("gone-1"),
			Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_RECEIPT, Since: ago(time.Hour)},
			},
		},
		{Id: ident.From("old-3"), Name: "old-3", Life: serverv1.Life_LIFE_DYING, Since: ago(time.Hour),
			Presence: serverv1.Presence_PRESENCE_ONLINE, Duties: []*serverv1.Duty{
				{
					Kind:   serverv1.DutyKind_DUTY_KIND_DEATH,
					Since:  ago(time.Minute),
					Reason: "this registry has no signing keys",
				},
			}},
		{Id: ident.From("old-4"), Name: "old-4", Life: serverv1.Life_LIFE_DYING, Since: ago(time.Hour),
			Presence: serverv1.Presence_PRESENCE_ONLINE, Duties: []*serverv1.Duty{
				{
					Kind:   serverv1.DutyKind_DUTY_KIND_AGENT,
					Agent:  "cron",
					TaskId: web1,
					Since:  ago(time.Minute),
					Ended:  true,
					Reason: "the last change was cancelled",
				},
			}},
		{Id: ident.From("gone-3"), Name: "gone-3", Life: serverv1.Life_LIFE_DEAD, Since: ago(time.Hour),
			Ownership: serverv1.Ownership_OWNERSHIP_MANUAL, UninstalledAt: ago(time.Minute), Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_PATHS, Since: ago(time.Hour),
					Reason: "2 paths of Garrison's own could not be deleted"},
				{Kind: serverv1.DutyKind_DUTY_KIND_FOUND, Since: ago(time.Hour),
					Reason: "unmanaged at its death: cron 1.0.0 (link agents/cron)"},
			}},
		{
			Id: ident.From("empty-1"), Name: "empty-1", Life: serverv1.Life_LIFE_ALIVE, Since: ago(time.Hour),
			Presence:  serverv1.Presence_PRESENCE_ONLINE,
			Reinstall: &serverv1.Reinstall{IntentId: web1, Actor: "ann", Since: ago(time.Minute)},

			CredentialsSince: ago(10 * 24 * time.Hour), CredentialsExpireAt: ago(-80 * 24 * time.Hour),
			ClockAhead: durationpb.New(-2 * time.Hour),
			Duties: []*serverv1.Duty{
				{Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: "cron", Since: ago(time.Minute), Ended: true},
				{Kind: serverv1.DutyKind_DUTY_KIND_EMPTY, Since: ago(time.Minute)},
			},
		},
		{
			Id:        ident.From("gone-2"),
			Name:      "gone-2",
			Life:      serverv1.Life_LIFE_DEAD,
			Ownership: serverv1.Ownership_OWNERSHIP_PROVISIONED,
			Since:     ago(time.Hour),
		},
	}
}

func foundServer() *serverv1.Server {
	since := ago(4 * time.Minute)
	return &serverv1.Server{
		Id:       "01900000-0000-7000-8000-000000000003",
		Name:     "web-3",
		Cell:     "main",
		Life:     serverv1.Life_LIFE_ALIVE,
		Presence: serverv1.Presence_PRESENCE_ONLINE,
		Since:    ago(time.Hour),
		FoundAt:  since, FoundMore: 3, Found: []*serverv1.FoundAgent{
			{Trace: serverv1.Trace_TRACE_LINK, Path: "agents/E_odd\x1b[31m/current", Since: since},
			{
				Agent:     "beacon",
				Trace:     serverv1.Trace_TRACE_LINK,
				Version:   "0.9.0",
				Path:      "agents/beacon/current",
				OtherRoot: "/srv/other",
				Since:     since,
			},
			{
				Agent:         "cron",
				Trace:         serverv1.Trace_TRACE_PROCESS,
				Version:       "1.0.0",
				Digest:        []byte{0xab, 0xcd, 0xef, 1, 2},
				Path:          "images/abcdef0102",
				OtherServerId: web1,
				Since:         since,
			},
			{Agent: "cron", Trace: serverv1.Trace_TRACE_UNIT, Path: "garrison-0-cron-1.service; reboot", Since: since},
			{Agent: "web", Trace: serverv1.Trace_TRACE_INSTANCE, Version: "2.0.0", Path: web2, Since: ago(time.Minute)},
		},
	}
}

func instances(agent string) []*registryv1.InstanceRow {
	if agent == "" {
		agent = "beacon"
	}
	row := func(server, name string, p serverv1.Presence, s instancev1.State, reason string) *registryv1.InstanceRow {
		return &registryv1.InstanceRow{ServerName: name, Presence: p, Instance: &instancev1.Instance{
			Id: ident.From(server, agent), ServerId: server, Agent: agent,
			Wanted:   &imagev1.Ref{Version: "1.0.0"},
			Observed: &imagev1.Ref{Version: "1.0.0"},
			Configuration: &instancev1.Configuration{
				Own:      map[string]string{"level": "info"},
				Metadata: map[string]string{"level": "info", "region": "eu"},
				Digest:   []byte{1, 2, 3, 4, 5, 6, 7, 8, 9},
			},
			State: s, Health: instancev1.Health_HEALTH_GOOD, Since: ago(time.Minute), Reason: reason,
		}}
	}
	rows := []*registryv1.InstanceRow{
		row(web1, "web-1", serverv1.Presence_PRESENCE_ONLINE, instancev1.State_STATE_CONVERGED, ""),
		row(web2, "web-2", serverv1.Presence_PRESENCE_OFFLINE, instancev1.State_STATE_PENDING, "waits for its server"),
	}
	if agent == "flaky" { // 2.0.0 was undone on one server, and it has no values of its own there
		undone := rows[1].Instance
		undone.Wanted, undone.State, undone.Configuration = &imagev1.Ref{
			Id:      web2,
			Version: "2.0.0",
		}, instancev1.State_STATE_FAILED, nil
		undone.IntentId, undone.ObservedAt, undone.ConfirmedAt = web1, ago(time.Hour), ago(5*time.Second)
	}
	return rows
}

// candidates answers what a scan of web-1 found. web-2 was never scanned.
func (f *fakes) candidates(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListCandidates",
		func(q *registryv1.ListCandidatesRequest) (*registryv1.ListCandidatesResponse, error) {
			if q.GetServer() != "web-1" {
				return nil, fault.Refuse(fault.NotFound, &apiv1.Refusal{
					Code: "NOT_SCANNED", Message: "server web-2 reported no candidates",
					Try: "garrison server refresh web-2 --scan",
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
