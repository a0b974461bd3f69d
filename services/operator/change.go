package operator

import (
	"slices"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (s *session) installCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "install AGENT[@VERSION|@IMAGE|@CHANNEL] --on SELECTOR", Short: "Put an agent on servers that do not have it", Args: exactly("AGENT"),
		Example: "  garrison install node-exporter@1.10.2 --on env=prod",
		RunE: func(c *cobra.Command, a []string) error {
			t, err := parseTarget(a[0])
			if err != nil {
				return err
			}
			on, err := w.selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: t.agent, Image: t.image, On: on}}}
			return s.propose(c.Context(), w, proposal{verb: topology.VerbInstall, asks: asked(ask)})
		},
	}
	w.add(c, true)
	return c
}

// asked asks for the plan of one intent.
func asked(i *intentv1.Intent) []*registryv1.PlanIntentRequest {
	return []*registryv1.PlanIntentRequest{{Intent: i}}
}

func (s *session) removeCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "remove AGENT --on SELECTOR", Short: "Take an agent off servers again", Args: exactly("AGENT"),
		SuggestFor: []string{"uninstall", "delete", "rm"},
		RunE: func(c *cobra.Command, a []string) error {
			if err := ident.CheckName("agent", a[0]); err != nil {
				return usageError{err.Error()}
			}
			on, err := w.selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: a[0], On: on}}}
			p := proposal{verb: topology.VerbRemove, question: "Remove " + a[0], asks: asked(ask)}
			return s.propose(c.Context(), w, p)
		},
	}
	w.add(c, true)
	w.addYes(c)
	return c
}

func (s *session) upCommand() *cobra.Command {
	var w workFlags
	var u up
	c := &cobra.Command{
		Use:   "up [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--all] [--exclude AGENT]… --on SELECTOR",
		Short: "Plan an upgrade, show it, ask, do it, and watch it",
		Long: `Plan an upgrade, show it, ask, do it, and watch it.

Without a version, the highest one of the channel is planned: of the server's environment, or the default one. It
never lowers a version, and does not try one again that failed on a server; name the version for either. What is
done is what was shown: when the fleet changes in between, nothing is done, and the exit code is 8.`,
		SuggestFor: []string{"upgrade", "update", "downgrade"},
		Example: "  garrison up node-exporter --on all --dry-run\n" +
			"  garrison up node-exporter@1.9.1 --on all            to this version, also downwards\n" +
			"  garrison up --all --exclude node-exporter --on env=prod",
		RunE: func(c *cobra.Command, a []string) error {
			on, err := w.selector()
			if err != nil {
				return err
			}
			if err := u.parse(a); err != nil {
				return err
			}
			p := proposal{verb: topology.VerbUpgrade, question: "Upgrade", asks: u.asks(on)}
			return s.propose(c.Context(), w, p)
		},
	}
	w.add(c, true)
	w.addYes(c)
	c.Flags().BoolVar(&u.all, "all", false, "every agent that is on the servers")
	namesVar(c.Flags(), &u.exclude, "exclude", aName("agent"), "with --all: but not this `AGENT`; repeatable")
	return c
}

// up is an upgrade that is asked for.
type up struct {
	targets []target
	all     bool
	exclude []string
}

func (u *up) parse(words []string) error {
	switch {
	case u.all && len(words) > 0:
		return usage("--all means every agent; leave it out, or leave %s out", words[0])
	case !u.all && len(words) == 0:
		return usage("which agent? Try: garrison up AGENT --on SELECTOR, or garrison up --all --on SELECTOR")
	case !u.all && len(u.exclude) > 0:
		return usage("--exclude only means something with --all")
	}
	for _, text := range words {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(u.targets, func(o target) bool { return o.agent == t.agent }) {
			return usage("%s is named twice; say once to which image it shall go", t.agent)
		}
		u.targets = append(u.targets, t)
	}
	return nil
}

// asks asks for one plan of every agent, or for one of each that is named.
func (u *up) asks(on *intentv1.Selector) []*registryv1.PlanIntentRequest {
	ask := func(t target) *intentv1.Intent {
		up := &intentv1.Upgrade{Agent: t.agent, Image: t.image, On: on}
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
	}
	if u.all {
		return []*registryv1.PlanIntentRequest{{Intent: ask(target{}), EveryAgent: true, Exclude: u.exclude}}
	}
	var out []*registryv1.PlanIntentRequest
	for _, t := range u.targets {
		out = append(out, &registryv1.PlanIntentRequest{Intent: ask(t)})
	}
	return out
}
