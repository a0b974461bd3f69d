package change

import (
	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// InstallCommand returns the command install.
func InstallCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:     "install AGENT[@VERSION|@IMAGE|@CHANNEL] --on SELECTOR",
		Short:   "Install an agent on servers that do not have it.",
		Args:    cli.Exactly("AGENT"),
		Example: "  garrison install node-exporter@1.10.2 --on env=prod",
		RunE: func(c *cobra.Command, a []string) error {
			t, err := parseTarget(a[0])
			if err != nil {
				return err
			}
			on, err := w.Selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{
				Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: t.agent, Image: t.image, On: on}},
			}
			p := work.Proposal{Verb: topology.VerbInstall, Asks: asked(ask), Differs: true}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	w.Add(c, true)
	return c
}

// asked returns the request for the plan of one intent.
func asked(i *intentv1.Intent) []*registryv1.PlanIntentRequest {
	return []*registryv1.PlanIntentRequest{{Intent: i}}
}

// RemoveCommand returns the command remove.
func RemoveCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:     "remove AGENT --on SELECTOR",
		Example: "  garrison remove beacon --on env=test",
		Short:   "Remove an agent from servers.", Args: cli.Exactly("AGENT"),
		SuggestFor: []string{"uninstall", "delete", "rm"},
		RunE: func(c *cobra.Command, a []string) error {
			if err := ident.CheckName("agent", a[0]); err != nil {
				return cli.Usage("%v", err)
			}
			on, err := w.Selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: a[0], On: on}}}
			p := work.Proposal{Verb: topology.VerbRemove, Question: "Remove " + a[0], Asks: asked(ask), Differs: true}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	return c
}
