package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// forgetServer takes a dead server, or an invitation that was not used, out of every view.
// One that is leaked is only forgotten by a caller that says so.
func (r *Registry) forgetServer(
	ctx context.Context, c bus.Caller, q *registryv1.ForgetServerRequest,
) (*registryv1.ForgetServerResponse, error) {
	resp := &registryv1.ForgetServerResponse{}
	err := r.write(ctx, func() ([]ledger.Draft, error) {
		s, err := r.find(q.Server)
		if resp.ServerId != "" && fault.Is(err, fault.NotFound) {
			return nil, nil // another registry was told the same
		}
		if err != nil {
			return nil, err
		}
		if server.Managed(s) {
			return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
				Code: "NOT_DEAD", Message: "server " + s.Name + " (" + s.Id + ") is under management",
				Try: "garrison server decommission " + s.Id,
			})
		}
		leaks := server.Leaks(s)
		if len(leaks) > 0 && !q.Leak {
			return nil, leaked(s, leaks)
		}
		resp.ServerId, resp.Leaks = s.Id, leaks
		return []ledger.Draft{r.guarded(r.asked(c, ledger.Server, s.Id, &serverv1.Forgotten{}))}, nil
	})
	return answer(resp, err)
}

// leaked refuses to forget a server on whose machine something of Garrison may still be.
func leaked(s *serverv1.Server, leaks []*serverv1.Duty) error {
	var why []string
	for _, l := range leaks {
		if l.Kind == serverv1.DutyKind_DUTY_KIND_RECEIPT {
			why = append(why, "its executor never said that it removes itself")
		} else {
			why = append(why, l.Reason)
		}
	}
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: "LEAKED",
		Message: fmt.Sprintf("something of Garrison may still be on the machine of server %s (%s): %s",
			s.Name, s.Id, strings.Join(why, "; ")),
		Try: fmt.Sprintf("garrison server clean %s; when the machine is gone: garrison server forget %s --leak",
			s.Name, s.Name),
	})
}
