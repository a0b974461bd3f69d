package rollout

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/display"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// longest is the longest of the times of a strategy.
const longest = 30 * 24 * time.Hour

// strategyFlags say how the waves are made.
type strategyFlags struct {
	strategy                 rolloutv1.Strategy
	canaries                 uint32
	waves                    waveStages
	soak, silence, doneAfter time.Duration
	joinFor                  time.Duration
}

func (f *strategyFlags) add(c *cobra.Command) {
	s, flags := &f.strategy, c.Flags()
	countVar(flags, &f.canaries, "canaries", "the first wave is this many `SERVERS`, chosen to cover what "+
		"differs; see --cover")
	flags.Var(cli.FlagValue{Read: f.waves.read}, "waves", "the `STAGES` of the next waves: sizes such as 10,25%,50%, "+
		"or conditions as in --on and sizes of them, with semicolons: 'env=test; 25% of rack=a; 10%'; the first that "+
		"takes a server has it; the rest is the last wave; repeatable")
	cli.NamesVar(flags, &s.Cover, "cover", cli.CheckField, "canaries cover the combinations of these `FIELDS`: "+
		"platform, env, agents, label.NAME; without it, platform and env")
	cli.TextVar(flags, &s.Spread, "spread", cli.CheckField, "each wave takes servers of each value of this `FIELD` in "+
		"turn, such as label.rack")
	flags.Var(cli.FlagValue{Read: func(text string) (err error) {
		s.MaxBroken, err = cli.ReadLimit(text)
		return err
	}}, "max-broken", "halt once more than `N` or N% of the servers are newly broken; without it, 1%")
	cli.NumberVar(flags, &s.SuccessPercent, "success", cli.Percentage, 100,
		"halt once this `PERCENT` of a wave can no longer succeed")
	cli.TimeVar(flags, &f.soak, "soak", 0, longest,
		"after each wave, wait this `TIME`, in which its servers must stay healthy")
	countVar(flags, &s.Concurrency, "concurrency", "change at most this many `SERVERS` at once; a wave begins "+
		"with 2 and one more for each that succeeds, and never has more under way than --max-broken still allows, or 1")
	flags.Var(cli.FlagValue{Read: f.readApproval}, "approve", "each wave after the first begins only after an "+
		"approval by `WHO`: any, or =other than who started the rollout")
	flags.Lookup("approve").NoOptDefVal = "any"
	cli.TimeVar(flags, &f.silence, "silence", 0, longest,
		"a server that was reached and is offline for this `TIME` is broken; without it, 2m")
	flags.Var(cli.FlagValue{Read: f.addKeep}, "keep", "keep at least so many servers working, such as 2/label.rack or "+
		"50%/env: `N/FIELD`; repeatable")
	cli.NumberVar(flags, &s.DonePercent, "done-percent", cli.Percentage, 100,
		"end once this `PERCENT` of the servers succeeded and "+
			"--done-after has passed; the rest is owed")
	cli.TimeVar(flags, &f.doneAfter, "done-after", 0, longest, "see --done-percent: this `TIME` since the last wave "+
		"began")
	cli.TimeVar(flags, &f.joinFor, "join-for", 0, longest, "servers that come to the selector join as a further wave "+
		"while the rollout runs, and for this `TIME` after it succeeded")
	countVar(flags, &s.ComparePermille, "compare", "halt when changed servers fail more often than the others, with "+
		"at most this rate of false alarms, in tenths of a percent: `RATE`")
	flags.BoolVar(&s.Override, "override", false, "change servers also while their environment is held or outside "+
		"its windows; it is recorded")
	flags.BoolVar(&s.Emergency, "emergency", false, "no soak, no approval, also beside another rollout; waves and "+
		"--max-broken hold")
}

func countVar(f *pflag.FlagSet, to *uint32, name, help string) {
	f.Var(cli.ValueOf(to, cli.ReadCount, func(uint32) string { return "" }), name, help)
}

// readApproval reads who approves the waves after the first.
func (f *strategyFlags) readApproval(who string) error {
	if who != "any" && who != "other" {
		return fmt.Errorf("%q is neither any nor other", who)
	}
	f.strategy.Approve, f.strategy.ApproveByOther = true, who == "other"
	return nil
}

func (f *strategyFlags) addKeep(text string) error {
	k, err := cli.ReadKeep(text)
	if err == nil {
		f.strategy.Keep = append(f.strategy.Keep, k)
	}
	return err
}

// parse returns the strategy of the flags.
func (f *strategyFlags) parse() *rolloutv1.Strategy {
	s := &f.strategy
	s.Soak, s.Silence, s.DoneAfter = cli.Within(f.soak), cli.Within(f.silence), cli.Within(f.doneAfter)
	s.JoinFor = cli.Within(f.joinFor)
	if f.canaries > 0 {
		s.Stages = append(s.Stages, &rolloutv1.Stage{Size: &rolloutv1.Stage_Canaries{Canaries: f.canaries}})
	}
	s.Stages = append(s.Stages, f.waves.list...)
	return s
}

// strategyText describes a strategy in one line.
func strategyText(s *rolloutv1.Strategy) string {
	parts := []string{"at most " + display.LimitText(s.GetMaxBroken()) + " newly broken"}
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.GetSuccessPercent() > 0, "%d %% of a wave succeed", s.GetSuccessPercent())
	waits := !s.GetEmergency() // an undo in an emergency may have the waits of what it undoes
	add(waits && durationOf(s.GetSoak()) > 0, "soak %s", durationOf(s.GetSoak()))
	add(s.GetConcurrency() > 0, "%d at once", s.GetConcurrency())
	add(waits && s.GetApprove() && !s.GetApproveByOther(), "each later wave is approved")
	add(waits && s.GetApproveByOther(), "each later wave is approved by another than who started it")
	for _, k := range s.GetKeep() {
		add(true, "%s keep working for each %s", display.LimitText(k.GetWorking()), k.GetField())
	}
	add(s.GetComparePermille() > 0, "compared with %.1f %% false alarms", float64(s.GetComparePermille())/10)
	add(s.GetJoinFor() != nil, "late servers join for %s after it", durationOf(s.GetJoinFor()))
	add(s.GetOverride(), "holds and windows of environments overridden")
	add(s.GetEmergency(), "emergency")
	return strings.Join(parts, ", ")
}

// strategyLines describes, each in one line, what a strategy asks for that few rollouts do, and what its canaries leave
// uncovered. Defaults are not named.
func strategyLines(p *registryv1.PlanRolloutResponse) (lines []string) {
	s, asked := p.GetStrategy(), p.GetIntent().GetRollout().GetStrategy()
	add := func(is bool, format string, args ...any) {
		if is {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	group := groupLine(p)
	add(group != "", "%s", group)
	add(len(asked.GetCover()) > 0, "canaries cover the combinations of %s", strings.Join(s.GetCover(), ", "))
	more := ""
	if n := p.GetMoreUncovered(); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	add(len(p.GetUncovered()) > 0, "no canary covers: %s%s", strings.Join(p.GetUncovered(), "; "), more)
	add(s.GetSpread() != "", "each wave takes servers of each %s in turn", s.GetSpread())
	add(asked.GetSilence() != nil, "broken once reached and offline for %s", durationOf(s.GetSilence()))
	add(asked.GetDonePercent() > 0, "ends once %d %% of the servers succeeded and %s passed since the last wave began",
		s.GetDonePercent(), durationOf(s.GetDoneAfter()))
	return lines
}

func durationOf(d *durationpb.Duration) time.Duration { return d.AsDuration() }
