package change

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

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
	c.Flags().BoolVar(&ask.BringWanted, "bring-wanted", false,
		"also bring the wanted version where another one runs")
	w.Add(c, true)
	w.AddYes(c)
	return c
}
