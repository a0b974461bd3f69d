package duty

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/leak"
)

// Left returns what the end of a server still waits for. A dying server waits for its presence, for
// each agent that is not removed, and then for its record; a dead one is listed with its leaks. A server that is being
// reinstalled waits for its presence, for each agent that is not gone, and then for its executor.
// unrecorded is why its end could not be recorded, and since when; nil when no attempt failed.
func Left(s *serverv1.Server, instances iter.Seq[*instancev1.Instance], unrecorded *Unrecorded) []*serverv1.Duty {
	reinstall := s.GetReinstall()
	if s.GetLife() != serverv1.Life_LIFE_DYING && reinstall == nil {
		return leak.Leaks(s)
	}
	out, removed := agentsLeft(s, instances)
	switch {
	case removed && reinstall == nil:
		return []*serverv1.Duty{death(s, unrecorded)} // it need no longer be online
	case removed:
		out = append(out, &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_EMPTY, Since: reinstall.Since})
	}
	return out
}

// agentsLeft returns whether a server waits for its presence and for which agents, and whether all are removed.
func agentsLeft(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) (out []*serverv1.Duty, removed bool) {
	if s.Presence != serverv1.Presence_PRESENCE_ONLINE {
		out = append(out, &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_PRESENCE, Since: s.Since, Reason: s.Reason})
	}
	removed = true
	for i := range instances {
		if instance.Removed(i) {
			continue
		}
		removed = false
		out = append(out, &serverv1.Duty{
			Kind: serverv1.DutyKind_DUTY_KIND_AGENT, Agent: i.Agent, TaskId: i.TaskId, Since: i.Since, Reason: i.Reason,
			Ended: i.State == instancev1.State_STATE_FAILED,
		})
	}
	return out, removed
}

// Unrecorded is why the duties of a server could not be recorded.
type Unrecorded struct {
	Since  time.Time
	Reason string
}

func death(s *serverv1.Server, unrecorded *Unrecorded) *serverv1.Duty {
	d := &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_DEATH, Since: s.Since}
	if unrecorded != nil {
		d.Since, d.Reason = timestamppb.New(unrecorded.Since), unrecorded.Reason
	}
	return d
}
