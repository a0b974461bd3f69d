package rollout

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// asked is what the flags of plan and start ask for.
type asked struct {
	strategy        strategyFlags
	servers         selector.Flags
	all             bool
	exclude         []string
	install, remove bool
	repair          bool
	strict, atOnce  bool
	title, note     string
	plan            string // a file; of start only
	configured      configured
	then            thenFlags
	at              startAt
}

func (q *asked) add(c *cobra.Command) {
	q.servers.Add(c)
	flags := c.Flags()
	flags.BoolVar(&q.all, "all", false, "upgrade every agent on the servers")
	cli.NamesVar(flags, &q.exclude, "exclude", cli.Name("agent"), "with --all: exclude this `AGENT`; repeatable")
	flags.BoolVar(&q.install, "install", false, "install the agents where they are missing, instead of an upgrade")
	flags.BoolVar(&q.remove, "remove", false, "remove the agents, instead of an upgrade")
	flags.BoolVar(&q.repair, "repair", false, "bring what is wanted again where something else than a task changed "+
		"the agents, instead of an upgrade; with --all, of every agent that drifts")
	flags.BoolVar(&q.strict, "strict", false, "do nothing if a server must be left out")
	flags.BoolVar(&q.atOnce, "at-once", false, "change more than 100 servers in one wave, without --canaries "+
		"or --waves")
	cli.TextVar(flags, &q.title, "title", cli.NotEmpty("title"), "what the rollout brings, in one `LINE`")
	cli.NoteVar(flags, &q.note)
	q.configured.add(flags)
	q.then.add(flags)
	q.strategy.add(c)
}

// check refuses flags that contradict each other.
func (q *asked) check(agents []string) error {
	switch {
	case q.all && len(agents) > 0:
		return cli.Usage("--all and the agent %s exclude each other", agents[0])
	case q.all && len(q.configured.agents) > 0:
		return cli.Usage("--all and --configure exclude each other")
	case !q.all && len(agents)+len(q.configured.agents) == 0:
		return cli.Usage("AGENT is missing. Try: garrison rollout plan AGENT --on SELECTOR")
	case !q.all && len(q.exclude) > 0:
		return cli.Usage("--exclude requires --all")
	case q.install && q.remove, q.all && (q.install || q.remove):
		return cli.Usage("--all, --install and --remove exclude each other")
	}
	return q.then.check(q.all, q.remove)
}

// checkRepair refuses flags and agents that a repair is not for.
func (q *asked) checkRepair(agents []string) error {
	switch {
	case !q.repair:
		return nil
	case !q.all && len(agents) == 0:
		return cli.Usage("--repair needs the agents that it is for. Try: --repair --all")
	case q.install || q.remove:
		return cli.Usage("--repair excludes --install and --remove")
	}
	return nil
}

// request returns the request for the plan of what was asked.
func (q *asked) request(ctx context.Context, env *cli.Env, agents []string) (*registryv1.PlanRolloutRequest, error) {
	if err := cmp.Or(q.checkRepair(agents), q.check(agents)); err != nil {
		return nil, err
	}
	on, err := q.servers.Selector()
	if err != nil {
		return nil, err
	}
	ask := &intentv1.Rollout{On: on, Strategy: q.strategy.parse(), Title: q.title}
	for _, word := range agents {
		step, err := q.step(word)
		if err != nil {
			return nil, err
		}
		ask.Steps = append(ask.Steps, step)
	}
	steps, err := q.configured.steps(ctx, env)
	if err != nil {
		return nil, err
	}
	ask.Steps = append(ask.Steps, steps...)
	if ask.Then, err = q.then.parse(ctx, env, ask.Steps); err != nil {
		return nil, err
	}
	if err := q.at.set(ask); err != nil {
		return nil, err
	}
	return &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Rollout{Rollout: ask}, Strict: q.strict, Note: q.note,
			AtOnce: q.atOnce,
		},
		EveryAgent: q.all, Exclude: q.exclude, Repair: q.repair && q.all,
	}, nil
}

func (q *asked) step(word string) (*intentv1.Step, error) {
	agent, image, err := change.ParseTarget(word)
	switch {
	case err != nil:
		return nil, err
	case q.remove && image != nil:
		return nil, cli.Usage("%q: a removal names no image", word)
	case q.repair && image != nil:
		return nil, cli.Usage("%q: a repair names no image, it brings the one that is wanted", word)
	case q.repair:
		return &intentv1.Step{Change: &intentv1.Step_Configure{
			Configure: &intentv1.Configure{Agent: agent, Repair: true},
		}}, nil
	case q.remove:
		return &intentv1.Step{Change: &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: agent}}}, nil
	case q.install:
		return &intentv1.Step{Change: &intentv1.Step_Install{
			Install: &intentv1.Install{Agent: agent, Image: image},
		}}, nil
	}
	return &intentv1.Step{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent, Image: image}}}, nil
}

func planCommand(env *cli.Env) *cobra.Command {
	var q asked
	var page cli.PageFlags
	var file string
	var forecast forecastFlags
	c := &cobra.Command{
		Use:   "plan [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--configure AGENT]… | --all [--exclude AGENT]… --on SELECTOR",
		Short: "Show in which waves a rollout would change which servers; change nothing.",
		Long: `Show in which waves a rollout would change which servers, and why others stay as they are.

Nothing is written. With --out FILE, the plan is kept: garrison rollout start --plan FILE does exactly what it shows,
or nothing, with the exit code 8, when the fleet changed in between. With --at, the file has the time: started later
than that it is refused, unless start has a time of its own.

--runs and --broken run the rollout many times on a model of the fleet, with the durations and failures of the last 7
days; the same engine decides. With --broken 20, the new version breaks 20 of 1,000 servers, half of them in the health
check and half within minutes after it: how many servers it reaches before the rollout halts.`,
		Example: "  garrison rollout plan beacon@1.1.0 --on env=prod --canaries 3 --waves 10%,50% --out plan.json\n" +
			"  garrison rollout plan --all --exclude beacon --on all --spread label.rack --keep 2/label.rack\n" +
			"  garrison rollout plan --configure beacon --set level=debug --on env=prod --waves 10%\n" +
			"  garrison rollout plan --repair --all --on env=prod --canaries 3 --waves 10%,50%\n" +
			"  garrison rollout plan beacon@1.1.0 --on all --waves 10% --broken 20",
		PreRunE: func(c *cobra.Command, a []string) error {
			if forecast.given() {
				return cli.Prints(env, display.RolloutForecast)(c, a)
			}
			return cli.Prints(env, display.RolloutTargets)(c, a)
		},
		RunE: func(c *cobra.Command, a []string) error {
			ask, err := q.request(c.Context(), env, a)
			if err != nil {
				return err
			}
			ask.Forecast = !forecast.given()
			p, err := planned(c.Context(), env, page, ask)
			if err != nil {
				return err
			}
			sayPlan(env, p)
			if p.GetRefusal() != nil {
				return client.Refused(p.GetRefusal())
			}
			if file != "" {
				if err := save(c.Context(), env, file, p); err != nil {
					return err
				}
			}
			if forecast.given() {
				return forecast.show(c.Context(), env, p)
			}
			if err := output.Show(env.Output, display.RolloutTargets, p, p.GetTargets()); err != nil {
				return err
			}
			cli.SayMore(env, p)
			return nil
		},
	}
	q.add(c)
	q.at.add(c.Flags(), env.Now, "at once")
	page.Add(c, 100)
	forecast.add(c)
	groupFlags(c.Flags())
	cli.OutVar(c.Flags(), &file, "write the plan to this `FILE`")
	return c
}

// planned returns the plan of a rollout with some of its servers.
func planned(
	ctx context.Context, env *cli.Env, page cli.PageFlags, q *registryv1.PlanRolloutRequest,
) (*registryv1.PlanRolloutResponse, error) {
	var first *registryv1.PlanRolloutResponse
	whole, err := cli.Collect(ctx, page, func(ctx context.Context, p *apiv1.Page) (
		*registryv1.PlanRolloutResponse, error,
	) {
		q.Page = p
		part, err := cli.Call[*registryv1.PlanRolloutResponse](ctx, env, q)
		q.Forecast = false
		if err != nil || first == nil {
			first = part
			return part, err
		}
		// Later parts repeat everything but the servers.
		return &registryv1.PlanRolloutResponse{Targets: part.GetTargets(), NextCursor: part.GetNextCursor()}, nil
	})
	return whole, err
}

// sayPlan prints a plan's waves, its limits, and why servers do not change.
func sayPlan(env *cli.Env, p *registryv1.PlanRolloutResponse) {
	if p.GetRefusal() != nil && len(p.GetWaves()) == 0 {
		return
	}
	work.Summary{
		Whole: planLines(p), Plans: p.GetSteps(), Values: p.GetValues(), More: p.GetMoreValues(),
	}.Say(env)
}

// planLines returns what is said of a rollout as a whole: its waves, its limits, how long it takes, what it waits for.
func planLines(p *registryv1.PlanRolloutResponse) []string {
	lines := []string{strategyText(p.GetStrategy())}
	if at := p.GetIntent().GetRollout().GetStartAt(); at != nil {
		lines = append(lines, "begins "+listing.Stamp(at)+"; servers and versions are those of this plan")
	}
	lines = append(lines, strategyLines(p)...)
	if p.GetBytes() > 0 {
		lines = append(lines, "fetches at most "+listing.Size(p.GetBytes())+" of images")
	}
	if text := display.TakesText(p.GetForecast()); text != "" {
		lines = append(lines, text)
	}
	lines = append(append(lines, closedLines(p)...), display.RolloutNotes(p)...)
	for n := range lines {
		lines[n] = "  " + lines[n]
	}
	first := fmt.Sprintf("plan: %s on %s in %s", p.GetTitle(), listing.Plural(int(serversOf(p)), "server"),
		wavesText(p))
	return append([]string{first}, lines...)
}

// closedLines returns which servers of a plan cannot be changed now, and until when.
func closedLines(p *registryv1.PlanRolloutResponse) (lines []string) {
	if p.GetClosed() == 0 {
		return nil
	}
	until := "with no end"
	if p.GetClosedUntil() != nil {
		until = "the last of them until " + listing.Stamp(p.GetClosedUntil())
	}
	lines = append(lines, fmt.Sprintf("%s cannot be changed now, %s: %s", listing.Plural(int(p.GetClosed()), "server"),
		until, p.GetClosedBecause()))
	if ahead := int(p.GetPrimed()); ahead > 0 {
		lines = append(lines, "while it waits, "+listing.Plural(ahead, "server")+" may fetch ahead what it brings")
	}
	return lines
}

// serversOf returns how many servers a plan changes, with those that are owed.
func serversOf(p *registryv1.PlanRolloutResponse) uint32 {
	servers := p.GetOwed()
	for _, n := range p.GetWaves() {
		servers += n
	}
	return servers
}

func wavesText(p *registryv1.PlanRolloutResponse) string {
	text := listing.Plural(len(p.GetWaves()), "wave")
	sep := " of "
	for _, n := range p.GetWaves() {
		text += fmt.Sprint(sep, n)
		sep = ", "
	}
	if n := p.GetOwed(); n > 0 {
		text += fmt.Sprintf("; %d are offline, unhealthy or failed before, and come last", n)
	}
	return text
}
