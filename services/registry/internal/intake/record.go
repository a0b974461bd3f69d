package intake

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Server keeps the intake of a server after a fact about it. bootBefore is the boot that was recorded before.
func Server(s *serverv1.Server, bootBefore string, f ledger.Fact) {
	if !server.Managed(s) {
		s.Intake = nil
		return
	}
	_, charged := ledger.ServerOfCause(f.Cause)
	switch b := f.Body.(type) {
	case *serverv1.SysinfoSeen:
		in := of(s)
		in.SysinfoAt = timestamppb.New(f.At)
		if Answers(s, b.RequestId) {
			in.RefreshAnswered, charged = true, false
		}
	case *serverv1.Released, *serverv1.Enrolled:
		if s.Intake != nil {
			in := of(s)
			in.Bytes, in.Facts = 0, 0
		}
	}
	if s.BootId != bootBefore {
		of(s).BootAt = timestamppb.New(f.At)
	}
	if charged {
		charge(of(s), f)
	}
}

// Observed keeps the pace of an instance after an observation, and charges it to its server, which may be nil.
// generationBefore is the generation that was observed before.
func Observed(i *instancev1.Instance, s *serverv1.Server, generationBefore uint64, f ledger.Fact) {
	newer := i.ObservedGeneration > generationBefore
	i.ObservedUntil = observedUntil(i, newer, f.At)
	if _, caused := ledger.ServerOfCause(f.Cause); caused && !newer && server.Managed(s) {
		charge(of(s), f)
	}
}

// Refresh keeps that a refresh was assigned to a server, which may be nil. A scan is answered without a fact.
func Refresh(s *serverv1.Server, t *taskv1.Task) {
	refreshes := t.Verb == taskv1.Verb_VERB_REFRESH && t.Scan == nil && t.Ahead == nil
	if server.Managed(s) && refreshes && t.State == taskv1.State_STATE_ASSIGNED {
		in := of(s)
		in.RefreshTaskId, in.RefreshAnswered = t.Id, false
	}
}

// of returns the intake of a server, to be changed. It takes the place of the one before, which lists share.
func of(s *serverv1.Server) *serverv1.Intake {
	if s.Intake == nil {
		s.Intake = &serverv1.Intake{}
	} else {
		s.Intake = shallow.Copy(s.Intake)
	}
	return s.Intake
}
