package check

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

const (
	// serversAGroup bounds how many servers one intent of a fix names.
	serversAGroup = 1000
	// namedServers is how many servers of a group are printed.
	namedServers = 5
	// curedWithin bounds the wait, after the work ended, for servers to list what it did.
	curedWithin = 30 * time.Second
	lookEvery   = 500 * time.Millisecond
)

// group is the differences that one intent cures.
type group struct {
	remedy  registryv1.Remedy
	agent   string
	image   string // its id
	version string
	servers []string // ids
	names   []string
}

// groupsOf returns the differences that commands cure, by command, and the others.
func groupsOf(all []display.Difference) (groups []*group, others []display.Difference) {
	type key struct {
		remedy       registryv1.Remedy
		agent, image string
	}
	open := map[key]*group{}
	for _, d := range all {
		switch d.GetRemedy() {
		case registryv1.Remedy_REMEDY_UP, registryv1.Remedy_REMEDY_REMOVE, registryv1.Remedy_REMEDY_REFRESH,
			registryv1.Remedy_REMEDY_CONFIGURE:
		default:
			others = append(others, d)
			continue
		}
		k := key{d.GetRemedy(), d.GetAgent(), d.GetImage().GetId()}
		g := open[k]
		if g == nil || len(g.servers) == serversAGroup {
			g = &group{remedy: k.remedy, agent: k.agent, image: k.image, version: d.GetImage().GetVersion()}
			open[k], groups = g, append(groups, g)
		}
		g.servers, g.names = append(g.servers, d.GetServerId()), append(g.names, d.GetServerName())
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.remedy, a.remedy), cmp.Compare(a.agent, b.agent), cmp.Compare(a.version, b.version))
	})
	return groups, others
}

// command returns the group as the command that does the same.
func (g *group) command() string {
	on := strings.Join(g.names[:min(len(g.names), namedServers)], ",")
	if more := len(g.names) - namedServers; more > 0 {
		on += ",… (" + listing.Plural(more, "more server") + ")"
	}
	switch g.remedy {
	case registryv1.Remedy_REMEDY_UP:
		return "garrison up " + g.agent + "@" + g.version + " --on " + on
	case registryv1.Remedy_REMEDY_REMOVE:
		return "garrison remove " + g.agent + " --on " + on
	case registryv1.Remedy_REMEDY_CONFIGURE:
		return "garrison configure " + g.agent + " --on " + on
	}
	return "garrison server refresh --on " + on
}

func (g *group) selector() *intentv1.Selector { return &intentv1.Selector{Servers: g.servers} }

// fix cures what commands cure, and prints what a person must do about the rest.
func fix(
	ctx context.Context, env *cli.Env, w work.Flags, q *registryv1.CheckFleetRequest,
	before *registryv1.CheckFleetResponse,
) error {
	groups, others := groupsOf(before.GetDifferences())
	for _, g := range groups {
		env.Say("plan: %s: %s", listing.Plural(len(g.servers), "server"), g.command())
	}
	sayOthers(env, others)
	if w.DryRun {
		return nil
	}
	if len(groups) == 0 {
		return cli.Ended(cli.ExitDifferent)
	}
	if err := env.Confirm(ctx, w.Yes, "Do "+listing.Plural(len(groups), "command")+"?"); err != nil {
		return err
	}
	if err := cure(ctx, env, w, groups); err != nil {
		return err
	}
	after, err := settled(ctx, env, q, groups)
	if err != nil {
		return err
	}
	return conclude(env, before, after)
}

// sayOthers prints the differences that no command cures, each with what does.
func sayOthers(env *cli.Env, others []display.Difference) {
	for _, d := range others {
		what := strings.TrimSuffix(d.GetServerName()+" "+d.GetAgent(), " ")
		if d.GetRemedy() == registryv1.Remedy_REMEDY_WAIT {
			env.Say("passes by itself: %s: %s: %s", what, d.GetCause(), d.GetReason())
			continue
		}
		env.Say("needs a person: %s: %s: %s. Try: %s", what, d.GetCause(), d.GetReason(), d.GetCure())
	}
}

// cure publishes the intents of all groups and watches them. One that is refused does not end the others; only a
// failure of the command itself does.
func cure(ctx context.Context, env *cli.Env, w work.Flags, groups []*group) error {
	w.Yes = true
	for _, g := range groups {
		if err := goesOn(env, g.do(ctx, env, w)); err != nil {
			return err
		}
	}
	return nil
}

// do publishes the intent of a group and watches it.
func (g *group) do(ctx context.Context, env *cli.Env, w work.Flags) error {
	switch g.remedy {
	case registryv1.Remedy_REMEDY_REFRESH:
		ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: g.selector()}}}
		ask.Note = w.Note
		return work.Publish(ctx, env, w, watch.Order{Verb: topology.VerbRefresh, Intent: ask})
	case registryv1.Remedy_REMEDY_REMOVE:
		return work.Propose(ctx, env, w, work.Proposal{Verb: topology.VerbRemove, Asks: g.asks()})
	case registryv1.Remedy_REMEDY_CONFIGURE:
		return work.Propose(ctx, env, w, work.Proposal{Verb: topology.VerbConfigure, Asks: g.asks()})
	}
	return work.Propose(ctx, env, w, work.Proposal{Verb: topology.VerbUpgrade, Asks: g.asks()})
}

func (g *group) asks() []*registryv1.PlanIntentRequest {
	return []*registryv1.PlanIntentRequest{{Intent: g.intent()}}
}

// intent returns what is asked for a group.
func (g *group) intent() *intentv1.Intent {
	if g.remedy == registryv1.Remedy_REMEDY_REMOVE {
		return &intentv1.Intent{Ask: &intentv1.Intent_Remove{
			Remove: &intentv1.Remove{Agent: g.agent, On: g.selector()},
		}}
	}
	if g.remedy == registryv1.Remedy_REMEDY_CONFIGURE {
		return &intentv1.Intent{Ask: &intentv1.Intent_Configure{
			Configure: &intentv1.Configure{Agent: g.agent, On: g.selector()},
		}}
	}
	return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: g.agent, On: g.selector(),
		Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: g.image}},
	}}}
}

// goesOn returns the error of one command that ends the fix: what it could not do is shown by the check afterwards.
func goesOn(env *cli.Env, err error) error {
	switch cli.CodeOf(err) {
	case cli.ExitOK, cli.ExitPartly:
		return nil
	case cli.ExitError, cli.ExitConflict:
		env.Say("%s", cli.LineOf(err))
		return nil
	}
	return err
}

// settled compares again until nothing of what was done differs, or the time for that has passed.
func settled(
	ctx context.Context, env *cli.Env, q *registryv1.CheckFleetRequest, groups []*group,
) (*registryv1.CheckFleetResponse, error) {
	for end := time.Now().Add(curedWithin); ; {
		after, err := fleet.Compare(ctx, env, q, 0)
		if err != nil || time.Now().After(end) || !differs(after, groups) {
			return after, err
		}
		if err := cli.Pause(ctx, lookEvery); err != nil {
			return nil, err
		}
	}
}

// differs reports whether something that a group was to cure still differs and may pass by itself: it was done, and
// the server has not listed it yet.
func differs(r *registryv1.CheckFleetResponse, groups []*group) bool {
	for _, d := range r.GetDifferences() {
		for _, g := range groups {
			if d.GetAgent() == g.agent && slices.Contains(g.servers, d.GetServerId()) {
				return true
			}
		}
	}
	return false
}

// conclude prints what is left and returns the exit: 0 when nothing is, 5 when a part was cured, 3 when nothing was.
func conclude(env *cli.Env, before, after *registryv1.CheckFleetResponse) error {
	left := fleet.Differing(after)
	if left == 0 {
		env.Say("cured: nothing differs now")
		return nil
	}
	for _, d := range after.GetDifferences() {
		env.Say("left: %s: %s: %s. Try: %s", strings.TrimSuffix(d.GetServerName()+" "+d.GetAgent(), " "),
			d.GetCause(), d.GetReason(), d.GetCure())
	}
	cured := max(0, fleet.Differing(before)-left)
	env.Say("cured %d of %s", cured, listing.Plural(fleet.Differing(before), "difference"))
	if cured == 0 {
		return cli.Ended(cli.ExitDifferent)
	}
	return cli.Ended(cli.ExitPartly)
}
