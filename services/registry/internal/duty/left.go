package duty

import (
	"iter"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// Left gives what the end of a server still waits for: of one that is dying to be heard
// and each agent that is not removed, of one that is dead the last word of its executor.
func Left(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) []*serverv1.Duty {
	var out []*serverv1.Duty
	if server.Leaked(s) {
		out = append(out, &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_RECEIPT, Since: s.Since, Reason: s.Reason})
	}
	if s.GetLife() != serverv1.Life_LIFE_DYING {
		return out
	}
	if s.Presence != serverv1.Presence_PRESENCE_ONLINE {
		out = append(out, &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_PRESENCE, Since: s.Since, Reason: s.Reason})
	}
	for i := range instances {
		if !instance.Removed(i) {
			out = append(out, &serverv1.Duty{
				Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: i.Agent, TaskId: i.TaskId, Since: i.Since, Reason: i.Reason,
			})
		}
	}
	return out
}
