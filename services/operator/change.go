package operator

import (
	"context"
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
			t, on, err := targetAndSelector(a[0], w.on)
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: t.agent, Image: t.image, On: on}}}
			return s.work(c.Context(), w, order{verb: topology.VerbInstall, intent: ask, on: on, agent: t.agent})
		},
	}
	w.add(c, true)
	return c
}

func targetAndSelector(text string, on []string) (target, *intentv1.Selector, error) {
	t, err := parseTarget(text)
	if err != nil {
		return t, nil, err
	}
	selector, err := parseSelector(on)
	return t, selector, err
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
			on, err := parseSelector(w.on)
			if err != nil {
				return err
			}
			return s.remove(c.Context(), w, a[0], on)
		},
	}
	w.add(c, true)
	w.addYes(c)
	return c
}

// remove looks first, asks, and removes.
func (s *session) remove(ctx context.Context, w workFlags, name string, on *intentv1.Selector) error {
	make := func(dry bool) order {
		ask := &intentv1.Intent{DryRun: dry, Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: name, On: on}}}
		return order{verb: topology.VerbRemove, intent: ask, on: on, agent: name}
	}
	if !w.dryRun && !w.yes {
		look := make(true)
		if err := s.decide(ctx, &look); err != nil {
			return err
		}
		s.say("%s", decidedText(look))
		if err := s.confirm(ctx, w, "Remove "+name+"?"); err != nil {
			return err
		}
	}
	return s.work(ctx, w, make(false))
}

func (s *session) upCommand() *cobra.Command {
	var w workFlags
	var u up
	c := &cobra.Command{
		Use:   "up [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--all] [--exclude AGENT]… --on SELECTOR",
		Short: "Plan an upgrade, show it, ask, do it, and watch it",
		// The line that ends a change says how to go back, and where it is lost this is where people look.
		SuggestFor: []string{"upgrade", "update", "downgrade", "rollback", "undo", "revert"},
		Example: "  garrison up node-exporter --on all --dry-run\n" +
			"  garrison up node-exporter@1.9.1 --on all            back to the version of before\n" +
			"  garrison up --all --exclude node-exporter --on env=prod",
		RunE: func(c *cobra.Command, a []string) (err error) {
			if u.on, err = parseSelector(w.on); err != nil {
				return err
			}
			if err := u.parse(a); err != nil {
				return err
			}
			return s.up(c.Context(), w, u)
		},
	}
	w.add(c, true)
	w.addYes(c)
	c.Flags().BoolVar(&u.all, "all", false, "every agent that is on the servers")
	namesVar(c.Flags(), &u.exclude, "exclude", aName("agent"), "with --all: but not this `AGENT`; may be said again")
	return c
}

// up is an upgrade that is asked for.
type up struct {
	targets []target
	all     bool
	exclude []string
	on      *intentv1.Selector
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

func (u *up) order(t target) order {
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: t.agent, Image: t.image, On: u.on}}}
	return order{verb: topology.VerbUpgrade, intent: ask, on: u.on, agent: t.agent}
}

// everyAgent gives the agents that have an instance, but those that are excluded.
func (s *session) everyAgent(ctx context.Context, exclude []string) ([]target, error) {
	rows, err := s.listInstances(ctx, &registryv1.ListInstancesRequest{})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range exclude {
		seen[name] = true
	}
	var out []target
	for _, r := range rows {
		if name := r.GetInstance().GetAgent(); !seen[name] {
			seen[name] = true
			out = append(out, target{agent: name})
		}
	}
	return out, nil
}
