package intake

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// SysinfoEvery is how often the sysinfo of one server may change.
	SysinfoEvery = 10 * time.Second
	// bootBeats is how many beat intervals lie between two changes of one server's boot.
	bootBeats = 2
	// ObservedBurst is how often what is observed of one instance may change in a row.
	ObservedBurst = 10
	// ObservedEvery is how often it may change after that.
	ObservedEvery = time.Minute
	// longest is how far ahead the observations of an instance count at most.
	longest = ObservedBurst * ObservedEvery
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
	if min(next.GetGeneration(), i.GetGeneration()) > i.GetObservedGeneration() || i.GetObservedUntil() == nil {
		return true
	}
	due := ObservedDue(i)
	return !now.Before(due) || due.Sub(now) > ObservedEvery
}

// ObservedDue returns when the next observation of an instance may be recorded.
func ObservedDue(i *instancev1.Instance) time.Time {
	return i.GetObservedUntil().AsTime().Add(ObservedEvery - longest)
}

// Held reports whether an instance changed so often that further changes had to wait.
func Held(i *instancev1.Instance) bool { return ObservedDue(i).After(i.GetObservedAt().AsTime()) }

// observedUntil returns the next value of an instance's observed_until, after an observation: each one counts for
// ObservedEvery, and one of a newer generation starts anew.
func observedUntil(i *instancev1.Instance, newer bool, at time.Time) *timestamppb.Timestamp {
	from := at
	if before := i.GetObservedUntil().AsTime(); !newer && before.After(at) && before.Sub(at) <= longest {
		from = before
	}
	return timestamppb.New(from.Add(ObservedEvery))
}

// passed reports whether something is at least a while ago, or not known, or in the future.
func passed(since *timestamppb.Timestamp, while time.Duration, now time.Time) bool {
	if since == nil {
		return true
	}
	ago := now.Sub(since.AsTime())
	return ago < 0 || ago >= while
}
