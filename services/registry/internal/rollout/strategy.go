package rollout

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

const (
	// defaultSilence is how long a server that was reached may be silent.
	defaultSilence = 2 * time.Minute
	// defaultBrokenPercent is how many servers a rollout may break when its strategy sets no limit.
	defaultBrokenPercent = 1
	// longest is the longest of the times of a strategy.
	longest = 30 * 24 * time.Hour
	// mostStages is how many stages a strategy may have.
	mostStages = 100
	// mostCanaries and mostFields bound what a plan compares for each server.
	mostCanaries = 200
	mostFields   = 8
	// mostMatches is how many conditions the group of a stage may have.
	mostMatches = 16
)

// Filled returns a copy of a strategy with every default filled in.
func Filled(s *rolloutv1.Strategy) *rolloutv1.Strategy {
	s = proto.CloneOf(s)
	if s == nil {
		s = &rolloutv1.Strategy{}
	}
	s.Cover = cover(s)
	if s.MaxBroken.GetBy() == nil {
		s.MaxBroken = &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: defaultBrokenPercent}}
	}
	if s.Silence.AsDuration() == 0 {
		s.Silence = durationpb.New(defaultSilence)
	}
	if s.DonePercent == 0 {
		s.DonePercent = 100
	}
	return s
}

// Check returns a refusal for a strategy that contradicts itself.
func Check(s *rolloutv1.Strategy) error {
	if len(s.GetStages()) > mostStages {
		return bad("%d stages; %d is the limit", len(s.Stages), mostStages)
	}
	for n, stage := range s.GetStages() {
		if err := checkStage(n+1, stage); err != nil {
			return err
		}
	}
	return checkLimits(s)
}

// checkStage checks the stage with a number, from 1.
func checkStage(number int, stage *rolloutv1.Stage) error {
	switch size := stage.Size.(type) {
	case *rolloutv1.Stage_Canaries:
		if size.Canaries == 0 || size.Canaries > mostCanaries {
			return bad("stage %d has %d canaries; 1 to %d is valid", number, size.Canaries, mostCanaries)
		}
	case *rolloutv1.Stage_Servers:
		if size.Servers == 0 {
			return bad("stage %d has no servers", number)
		}
	case *rolloutv1.Stage_Percent:
		if size.Percent == 0 || size.Percent > 100 {
			return bad("stage %d has %d %% of the servers; 1 to 100 is valid", number, size.Percent)
		}
	default:
		if stage.Of == nil {
			return bad("stage %d has neither a size nor conditions", number)
		}
	}
	if w := len(stage.Of.GetWhere()); stage.Of != nil && (w == 0 || w > mostMatches) {
		return bad("stage %d has %d conditions; 1 to %d is valid", number, w, mostMatches)
	}
	return checkTime("the soak of a stage", stage.Soak)
}

func checkLimits(s *rolloutv1.Strategy) error {
	for _, l := range []struct {
		what    string
		percent uint32
	}{
		{"max_broken", s.GetMaxBroken().GetPercent()}, {"success_percent", s.GetSuccessPercent()},
		{"done_percent", s.GetDonePercent()},
	} {
		if l.percent > 100 {
			return bad("%s is %d %%; 0 to 100 is valid", l.what, l.percent)
		}
	}
	if s.GetComparePermille() >= 1000 {
		return bad("a rate of false alarms of %d ‰ is not below 1,000", s.ComparePermille)
	}
	if len(s.GetKeep()) > mostFields || len(s.GetCover()) > mostFields {
		return bad("%d keep budgets and %d fields to cover; %d is the limit", len(s.Keep), len(s.Cover), mostFields)
	}
	for _, k := range s.GetKeep() {
		if k.Field == "" || k.Working.GetBy() == nil {
			return bad("a keep budget needs a field and a limit")
		}
		if k.Working.GetPercent() > 100 {
			return bad("a keep budget of %d %%; 0 to 100 is valid", k.Working.GetPercent())
		}
	}
	return cmp.Or(
		checkTime("soak", s.GetSoak()), checkTime("silence", s.GetSilence()),
		checkTime("done_after", s.GetDoneAfter()), checkTime("join_for", s.GetJoinFor()),
	)
}

func checkTime(what string, d *durationpb.Duration) error {
	if t := d.AsDuration(); t < 0 || t > longest {
		return bad("%s is %s; 0 to %s is valid", what, t, longest)
	}
	return nil
}

func bad(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadStrategy, "bad strategy: "+format, args...)
}

// limit returns how many of all servers a limit is; percentages are rounded down.
func limit(l *rolloutv1.Limit, all int) int {
	switch by := l.GetBy().(type) {
	case *rolloutv1.Limit_Servers:
		return int(by.Servers)
	case *rolloutv1.Limit_Percent:
		return all * int(by.Percent) / 100
	}
	return all * defaultBrokenPercent / 100
}

// soakOf returns how long the servers of a wave must stay healthy. The plan records the stages that took servers, one
// for each wave, but not for the last one where the stages do not take all servers.
func soakOf(r *rolloutv1.Rollout, wave uint32) time.Duration {
	if r.Strategy.GetEmergency() {
		return 0
	}
	if n := int(wave); n <= len(r.Strategy.GetStages()) && r.Strategy.Stages[n-1].Soak != nil {
		return r.Strategy.Stages[n-1].Soak.AsDuration()
	}
	return r.Strategy.GetSoak().AsDuration()
}

func silenceOf(r *rolloutv1.Rollout) time.Duration {
	if d := r.Strategy.GetSilence().AsDuration(); d > 0 {
		return d
	}
	return defaultSilence
}
