package change

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// firstOne says how a change of many servers begins.
const firstOne = `On more than 5 servers, one is changed first, and the others once it is good. Such a change is a
rollout, which halts by itself and can be undone as a whole; --at-once changes all at the same time.`

// InstallCommand returns the command install.
func InstallCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:   "install AGENT[@VERSION|@IMAGE|@CHANNEL]… --on SELECTOR",
		Short: "Install agents on servers that do not have them.",
		Long: `Install agents on servers that do not have them: plan, confirm, apply and watch.

` + firstOne + ` Without a terminal it does not ask, since nothing that runs is
changed.`,
		Args: cli.AtLeast("AGENT"),
		Example: "  garrison install node-exporter@1.10.2 --on env=prod\n" +
			"  garrison install beacon fluent --on web-1",
		RunE: func(c *cobra.Command, a []string) error {
			q := agents{verb: installs}
			if err := q.parse(a); err != nil {
				return err
			}
			w.Yes = w.Yes || !cli.IsTerminal(env.In)
			return q.do(c, env, w, waves)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	waves.Add(c)
	return c
}

// UpCommand returns the command up.
func UpCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	q := agents{verb: upgrades}
	c := &cobra.Command{
		Use:   "up [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--all] [--exclude AGENT]… --on SELECTOR",
		Short: "Upgrade agents: plan, confirm, apply and watch.",
		Long: `Plan an upgrade, show it, ask, do it, and watch it.

Without a version, the highest one of the channel is planned: of the server's environment, or the default one. It
never lowers a version; name it for that. One that failed on a server is tried there again only when it is named and
-m says why. What is done is what was shown: when the fleet changes in between, nothing is done, and the exit code is 8.

` + firstOne + ` --batch, --stop-after and --soak say
how; garrison rollout start has more gates.`,
		Aliases: []string{"upgrade"}, SuggestFor: []string{"update", "downgrade"},
		Example: "  garrison up node-exporter --on all --dry-run\n" +
			"  garrison up node-exporter@1.9.1 --on all   # to this version, also downwards\n" +
			"  garrison up node-exporter --on all --batch 10% --stop-after 1\n" +
			"  garrison up --all --exclude node-exporter --on env=prod",
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case q.all && len(a) > 0:
				return cli.Usage("--all and the agent %s exclude each other", a[0])
			case !q.all && len(a) == 0:
				return cli.Usage("AGENT is missing. Try: garrison up AGENT --on SELECTOR")
			case q.all && q.again:
				return cli.Usage("--again needs the agents that it is for. Try: garrison up AGENT --again")
			case !q.all && len(q.exclude) > 0:
				return cli.Usage("--exclude requires --all")
			}
			if err := q.parse(a); err != nil {
				return err
			}
			return q.do(c, env, w, waves)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	waves.Add(c)
	c.Flags().BoolVar(&q.all, "all", false, "upgrade every agent on the servers")
	c.Flags().BoolVar(&q.again, "again", false, "bring the image also where it is already, and start the agent again; "+
		"without a version, the one that each server has")
	cli.NamesVar(c.Flags(), &q.exclude, "exclude", cli.Name("agent"), "with --all: exclude this `AGENT`; repeatable")
	return c
}

// RestartCommand returns the command restart.
func RestartCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:   "restart AGENT… --on SELECTOR",
		Short: "Start agents again, with the version and configuration that they have.",
		Long: `Start agents again, with the version and the configuration that each server has. It is a change like any
other: the files are checked, damaged ones are replaced, and the agent must pass its health check.

` + firstOne + `
What a restart did cannot be undone, and fails no build.`,
		Example: "  garrison restart beacon --on web-1\n  garrison restart beacon fluent --on env=prod --batch 10%",
		Args:    cli.AtLeast("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			q := agents{verb: upgrades, again: true}
			q.question = "Restart"
			if err := q.parseNames(a); err != nil {
				return err
			}
			return q.do(c, env, w, waves)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	waves.Add(c)
	return c
}

// RemoveCommand returns the command remove.
func RemoveCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:     "remove AGENT… --on SELECTOR",
		Example: "  garrison remove beacon --on env=test",
		Short:   "Remove agents from servers.", Args: cli.AtLeast("AGENT"),
		SuggestFor: []string{"uninstall", "delete", "rm"},
		RunE: func(c *cobra.Command, a []string) error {
			q := agents{verb: removes}
			if err := q.parseNames(a); err != nil {
				return err
			}
			on, err := q.on(c, w)
			if err != nil {
				return err
			}
			p := work.Proposal{Verb: q.name, Question: q.question, Asks: q.asks(on)}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	return c
}

// asked returns the request for the plan of one intent.
func asked(i *intentv1.Intent) []*registryv1.PlanIntentRequest {
	return []*registryv1.PlanIntentRequest{{Intent: i}}
}

// ConfigureCommand returns the command configure.
func ConfigureCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	var values cli.Values
	var revision uint64
	ask := &intentv1.Configure{}
	c := &cobra.Command{
		SuggestFor: []string{"config", "set"},
		Use:        "configure AGENT [--set NAME=VALUE]… [--set-json NAME=JSON]… [--unset NAME]… --on SELECTOR",
		Short:      "Bring the current metadata of an agent to servers that have it.",
		Long: `Bring the current metadata of an agent to servers that have it.

Values come from the agent's application, the agent, the server's environment, and those that are
set here for the selected servers only; a later one wins, and objects are merged key by key. What
is recorded elsewhere is brought by this, or by garrison up, and never by itself. The agent is only
disturbed where something that it reads differs; where the new configuration does not prove itself,
the one before comes back.

No version moves: a server keeps what runs, also where another version is wanted because that one was
cancelled or expired. With --bring-wanted the wanted version comes too.

` + firstOne,
		Example: "  garrison app update net --set resolver=10.0.0.2\n" +
			"  garrison configure beacon --on env=prod\n" +
			"  garrison configure beacon --set level=debug --on web-1\n" +
			"  garrison configure beacon --set-json log='{\"keep\": 5}' --unset log.path --on web-1\n" +
			"  garrison configure beacon --set-secret password=@password.txt --on env=prod",
		Args: cli.Exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			ask.Agent = a[0]
			if err := ident.CheckName("agent", ask.Agent); err != nil {
				return cli.Usage("%v", err)
			}
			if ask.On, err = w.Selector(); err != nil {
				return err
			}
			own, err := values.Change(c.Context(), env)
			if err != nil {
				return err
			}
			ask.Set, ask.Unset, ask.Replace = own.Set, own.Unset, own.Replace
			if c.Flags().Changed("if-revision") {
				ask.IfRevision = &revision
			}
			i := &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: ask}}
			p := work.Proposal{Verb: topology.VerbConfigure, Question: "Configure", Asks: asked(i)}
			if ask.IfRevision == nil && !ask.BringWanted {
				p.Wide = func(ctx context.Context, wide *work.Planned) error {
					one := proto.CloneOf(ask)
					one.On = nil
					step := &intentv1.Step{Change: &intentv1.Step_Configure{Configure: one}}
					return waves.Carry(ctx, rolloutOf(ask.On, w, step), w, wide)
				}
			}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	values.Add(c.Flags(), "the selected servers only")
	values.AddChanges(c.Flags(), "the selected servers only")
	cli.RevisionVar(c.Flags(), &revision, "leave out servers whose own values have another `REVISION`, which "+
		"garrison instance show prints; 0: never set")
	c.Flags().BoolVar(&ask.BringWanted, "bring-wanted", false, "also bring the wanted version where another one runs")
	w.Add(c, true)
	w.AddYes(c)
	return c
}
