package duty

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// Left returns what the end of a server still waits for: of one that is dying to be heard, each
// agent that is not removed, and then its record; of one that is dead why it is leaked. unrecorded
// is why its end could not be recorded, and since when; nil when that was not tried in vain.
func Left(s *serverv1.Server, instances iter.Seq[*instancev1.Instance], unrecorded *Unrecorded) []*serverv1.Duty {
	if s.GetLife() != serverv1.Life_LIFE_DYING {
		return server.Leaks(s)
	}
	var out []*serverv1.Duty
	if s.Presence != serverv1.Presence_PRESENCE_ONLINE {
		out = append(out, &serverv1.Duty{Kind: serverv1.DutyKind_DUTY_KIND_PRESENCE, Since: s.Since, Reason: s.Reason})
	}
	removed := true
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
	if removed {
		return []*serverv1.Duty{death(s, unrecorded)} // it need not be heard any more
	}
	return out
}

// Unrecorded is why what is due about a server could not be recorded.
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
