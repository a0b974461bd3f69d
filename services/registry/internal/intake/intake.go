// Package intake decides when what a server says may become a fact: how often each part of it may change, and how
// much of the ledger a server may take in a day. Everything here is pure. It rests on the record that the view keeps of
// facts, so that replicas agree, and a restart forgets nothing.
//
// Guarantees:
//
//  1. A change that comes too early waits, and the last value is recorded when the time has come.
//  2. The outcome of a change that an operator asked for never waits and costs the server nothing.
//  3. A clock that was set back delays nothing.
package intake

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/code"
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
		s.Intake = budget.Charge(s.Intake, f)
	}
}

// Observed keeps the pace of an instance after an observation, and charges it to its server, which may be nil.
// generationBefore is the generation that was observed before.
func Observed(i *instancev1.Instance, s *serverv1.Server, generationBefore uint64, f ledger.Fact) {
	newer := i.ObservedGeneration > generationBefore
	before := i.ObservedUntil
	if newer { // it starts anew
		before = nil
	}
	i.ObservedUntil = budget.Until(before, f.At)
	if _, caused := ledger.ServerOfCause(f.Cause); caused && !newer && server.Managed(s) {
		s.Intake = budget.Charge(s.Intake, f)
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

// Over reports whether a server caused more than its budget today.
func Over(s *serverv1.Server, most uint64, now time.Time) bool {
	return budget.Over(s.GetIntake(), most, now)
}

// Quarantine returns the fact that shuts out a server that is over its budget, or nil.
func Quarantine(s *serverv1.Server, most uint64, now time.Time) *serverv1.Quarantined {
	if !server.Believed(s) || !Over(s, most, now) {
		return nil
	}
	return &serverv1.Quarantined{Code: code.LedgerBudget, Reason: fmt.Sprintf(
		"its reports and beats wrote %s in %d facts on %s (UTC), and the budget of a server is %s a day; "+
			"find out what it repeats, then: garrison server release %s",
		budget.MiB(s.Intake.Bytes), s.Intake.Facts, now.UTC().Format(time.DateOnly), budget.MiB(most), s.Name)}
}

const (
	// SysinfoEvery is how often the sysinfo of one server may change.
	SysinfoEvery = 10 * time.Second
	// bootBeats is how many beat intervals lie between two changes of one server's boot.
	bootBeats = 2
)

// BootMayChange reports whether a beat of another boot may be recorded. interval is that of beats.
func BootMayChange(s *serverv1.Server, now time.Time, interval time.Duration) bool {
	return passed(s.GetIntake().GetBootAt(), bootBeats*interval, now)
}

// SysinfoMayChange reports whether another sysinfo may be recorded.
func SysinfoMayChange(s *serverv1.Server, now time.Time) bool {
	return passed(s.GetIntake().GetSysinfoAt(), SysinfoEvery, now)
}

// SysinfoDue returns when another sysinfo may be recorded.
func SysinfoDue(s *serverv1.Server) time.Time {
	return s.GetIntake().GetSysinfoAt().AsTime().Add(SysinfoEvery)
}

// Answers reports whether a sysinfo report answers the last refresh of its server, for the first time.
func Answers(s *serverv1.Server, taskID string) bool {
	in := s.GetIntake()
	return taskID != "" && in.GetRefreshTaskId() == taskID && !in.GetRefreshAnswered()
}

// ObservedMayChange reports whether another observation of an instance may be recorded. One of a newer generation
// always may; intents bound how many of those there are.
func ObservedMayChange(i *instancev1.Instance, next *instancev1.Observed, now time.Time) bool {
	if min(next.GetGeneration(), i.GetGeneration()) > i.GetObservedGeneration() {
		return true
	}
	return budget.MayChange(i.GetObservedUntil(), now)
}

// ObservedDue returns when the next observation of an instance may be recorded.
func ObservedDue(i *instancev1.Instance) time.Time { return budget.Due(i.GetObservedUntil()) }

// Held reports whether an instance changed so often that further changes had to wait.
func Held(i *instancev1.Instance) bool { return ObservedDue(i).After(i.GetObservedAt().AsTime()) }

// passed reports whether something is at least a while ago, or not known, or in the future.
func passed(since *timestamppb.Timestamp, while time.Duration, now time.Time) bool {
	if since == nil {
		return true
	}
	ago := now.Sub(since.AsTime())
	return ago < 0 || ago >= while
}
