package servers

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reports"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// The limits of what is recorded about a clean-up.
const (
	MaxVia  = 256
	maxCode = 64
)

// RecordCleanUp records how an operator's attempt to clean the machine of a dead server ended, so
// that a removal is a fact also when the server's executor could not report it. It is safe to run
// twice: a repeated request writes nothing.
func (a *API) RecordCleanUp(
	ctx context.Context,
	c bus.Caller,
	q *registryv1.RecordCleanUpRequest,
) (*registryv1.RecordCleanUpResponse, error) {
	if err := checkCleanUp(q); err != nil {
		return nil, err
	}
	body := cleanUpFact(q)
	var id string
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		s, err := a.records.Find(q.Server)
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
		return []ledger.Draft{a.records.ByCaller(c, ledger.Server, s.Id, body)}, nil
	})
	if err != nil {
		return nil, err
	}
	s, err := a.copy(ctx, id)
	return request.Answer(&registryv1.RecordCleanUpResponse{Server: s}, err)
}

// checkCleanUp refuses an incomplete outcome, and text that is too long for the ledger.
func checkCleanUp(q *registryv1.RecordCleanUpRequest) error {
	bad := func(format string, args ...any) error { return request.Invalid(code.Invalid, format, args...) }
	o := q.Outcome
	switch {
	case o == nil || o.At == nil || !o.At.IsValid():
		return bad("the outcome or its time is missing")
	case o.DryRun:
		return bad("a dry run is not recorded, because nothing was done")
	case q.Via == "" || !request.Printable(q.Via, MaxVia):
		return bad("how the machine was reached must be printable and have 1 to %d bytes", MaxVia)
	case o.Refusal != nil && (o.Refusal.Code == "" || !request.Printable(o.Refusal.Code, maxCode)):
		return bad("the code of a failure must be printable and have 1 to %d bytes", maxCode)
	}
	return nil
}

// cleanable refuses an outcome of a server that is not dead, or of another one.
func cleanable(s *serverv1.Server, o *reportv1.CleanUpOutcome) error {
	if s.Life != serverv1.Life_LIFE_DEAD {
		return fault.Refusef(fault.Conflict, code.NotDead,
			"server %s (%s) is not dead, so there is nothing to clean up", s.Name, s.Id).
			Try("garrison server decommission " + s.Name)
	}
	if o.ServerId != s.Id {
		return request.Invalid(code.Invalid,
			"the outcome is of server %q, and %s is %s", o.ServerId, s.Name, s.Id)
	}
	return nil
}

// cleanUpFact returns the fact that an outcome stands for.
func cleanUpFact(q *registryv1.RecordCleanUpRequest) proto.Message {
	o := q.Outcome
	if o.Refusal == nil {
		return &serverv1.Uninstalled{
			Removed: o.Removed,
			Left:    o.Left,
			LeftOwn: reports.LeftOwn(o.Paths),
			Via:     q.Via,
			EndedAt: o.At,
		}
	}
	return &serverv1.CleanUpFailed{
		Via:     q.Via,
		Code:    o.Refusal.Code,
		Reason:  request.OneLine(o.Refusal.Message),
		Removed: o.Removed,
		EndedAt: o.At,
	}
}
