package registry

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The limits of what is recorded about a clean-up.
const (
	maxVia    = 256
	maxCode   = 64
	maxReason = 1000
)

// recordCleanUp records how an operator's try to clean the machine of a dead server ended:
// what was removed is a fact also when the server's executor could not say so itself.
// Told twice of one try, the second time writes nothing.
func (r *Registry) recordCleanUp(ctx context.Context, c bus.Caller, q *registryv1.RecordCleanUpRequest) (*registryv1.RecordCleanUpResponse, error) {
	if err := checkCleanUp(q); err != nil {
		return nil, err
	}
	said := cleanUpFact(q)
	var id string
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		s, err := r.find(q.Server)
		if err != nil {
			return nil, err
		}
		if err := cleanable(s, q.Outcome); err != nil {
			return nil, err
		}
		id = s.Id
		if last := s.CleanUp; last != nil && last.Via == q.Via && proto.Equal(last.At, q.Outcome.At) {
			return nil, nil
		}
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Server, s.Id, said))}, nil
	})
	resp := &registryv1.RecordCleanUpResponse{}
	if err == nil {
		err = r.copyServer(ctx, id, &resp.Server)
	}
	return answer(resp, err)
}

// checkCleanUp refuses what says too little, or more than is to stand in the ledger.
func checkCleanUp(q *registryv1.RecordCleanUpRequest) error {
	bad := func(format string, args ...any) error { return invalid("BAD_CLEAN_UP", fmt.Sprintf(format, args...)) }
	o := q.Outcome
	switch {
	case o == nil || o.At == nil || !o.At.IsValid():
		return bad("it is not said how it ended, and when")
	case o.DryRun:
		return bad("it was a dry run: nothing was done")
	case q.Via == "" || !printable(q.Via, maxVia):
		return bad("how the machine was reached must be printable and have 1 to %d bytes", maxVia)
	case o.Refusal != nil && (o.Refusal.Code == "" || !printable(o.Refusal.Code, maxCode)):
		return bad("the code of a failure must be printable and have 1 to %d bytes", maxCode)
	}
	return nil
}

// cleanable refuses what is about a server that is not dead, or about another one. It must run inside Read.
func cleanable(s *serverv1.Server, o *reportv1.CleanUpOutcome) error {
	if s.Life != serverv1.Life_LIFE_DEAD {
		return fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "NOT_DEAD", Message: "server " + s.Name + " (" + s.Id + ") is not dead, so nothing is to be cleaned up there",
			Try: "garrison server decommission " + s.Name,
		})
	}
	if o.ServerId != s.Id {
		return invalid("BAD_CLEAN_UP", fmt.Sprintf("it is about server %q, and %s is %s", o.ServerId, s.Name, s.Id))
	}
	return nil
}

func cleanUpFact(q *registryv1.RecordCleanUpRequest) proto.Message {
	o := q.Outcome
	if o.Refusal == nil {
		return &serverv1.Uninstalled{Removed: o.Removed, Left: o.Left, LeftOwn: leftOwn(o.Paths), Via: q.Via, EndedAt: o.At}
	}
	return &serverv1.CleanUpFailed{Via: q.Via, Code: o.Refusal.Code, Reason: short(o.Refusal.Message), Removed: o.Removed, EndedAt: o.At}
}

// short makes one line of bounded length of what a machine said.
func short(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return text
}
