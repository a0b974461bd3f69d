package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (s *session) configureCommand() *cobra.Command {
	var w workFlags
	ask := &intentv1.Configure{}
	c := &cobra.Command{
		SuggestFor: []string{"config", "set"},
		Use:        "configure AGENT [--set NAME=VALUE]… [--unset NAME]… --on SELECTOR",
		Short:      "Bring an agent's metadata, as it is recorded now, to servers that have it",
		Long: `Bring an agent's metadata, as it is recorded now, to servers that have it.

Values come from the agent's application, the agent, the server's environment, and those that are
set here for the selected servers only; a later one wins. What is recorded elsewhere is brought by
this, or by garrison up, and never by itself. The agent is only disturbed where something that it
reads differs; where the new configuration does not prove itself, the one before comes back.

The version that is wanted comes with it. Where another one runs, because that one was undone, it is
tried again; what is shown before says so, and how to keep what runs.`,
		Example: "  garrison app update net --metadata resolver=10.0.0.2\n" +
			"  garrison configure beacon --on env=prod\n" +
			"  garrison configure beacon --set level=debug --on web-1",
		Args: exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			ask.Agent = a[0]
			if err := checkConfigure(ask); err != nil {
				return err
			}
			if ask.On, err = parseSelector(w.on); err != nil {
				return err
			}
			return s.configure(c.Context(), w, ask)
		},
	}
	pairsVar(c.Flags(), &ask.Set, "set", "set a value of the servers' own, `NAME=VALUE`; may be said again", parseValue)
	namesVar(c.Flags(), &ask.Unset, "unset", metadata.CheckName, "take a value of the servers' own away, `NAME`; may be said again")
	w.add(c, true)
	w.addYes(c)
	return c
}

// checkConfigure refuses what the flags alone cannot tell.
func checkConfigure(q *intentv1.Configure) error {
	if err := ident.CheckName("agent", q.Agent); err != nil {
		return usageError{err.Error()}
	}
	for _, name := range q.Unset {
		if _, both := q.Set[name]; both {
			return usage("--set and --unset both name %s", name)
		}
	}
	if err := metadata.Check(q.Set); err != nil {
		return usageError{"--set: " + err.Error()}
	}
	return nil
}

// parseValue reads NAME=VALUE, as services take it.
func parseValue(word string) (k, v string, err error) {
	k, v, ok := strings.Cut(word, "=")
	if !ok || k == "" {
		return "", "", fmt.Errorf("%q is not NAME=VALUE", word)
	}
	return k, v, metadata.Check(map[string]string{k: v})
}

// configure looks first, shows what would change, asks, does it, and watches.
func (s *session) configure(ctx context.Context, w workFlags, ask *intentv1.Configure) error {
	make := func(dry bool) order {
		i := &intentv1.Intent{DryRun: dry, Ask: &intentv1.Intent_Configure{Configure: ask}}
		return order{verb: topology.VerbConfigure, intent: i, on: ask.On, agent: ask.Agent}
	}
	look := make(true)
	if err := s.decide(ctx, &look); err != nil {
		return err
	}
	rows, err := s.configureRows(ctx, ask, look)
	if err != nil {
		return err
	}
	s.say("%s", decidedText(look))
	for _, name := range neverSet(ask, rows, look) {
		s.say("note: --unset %s takes nothing away: no selected server has a value of its own of that name. Try: garrison instance show SERVER %s", name, ask.Agent)
	}
	if w.dryRun {
		if err := show(s, configureListing, rows, rows); err != nil {
			return err
		}
		s.sayAll(slices.Concat(unknownLines(rows, look), avoidLines(rows)))
		return nil
	}
	if look.record.GetChanged() == 0 {
		s.say("nothing to do")
		return nil
	}
	if err := s.previewConfigure(rows, look); err != nil {
		return err
	}
	if err := s.confirm(ctx, w, fmt.Sprintf("Configure on %s?", plural(int(look.record.GetChanged()), "server"))); err != nil {
		return err
	}
	o := make(false)
	o.undo = func(o order) []string { return undoConfigure(ask, rows, o) }
	return s.work(ctx, w, o)
}

// previewConfigure shows a person what would change, and how to keep what runs.
func (s *session) previewConfigure(rows []configureRow, look order) error {
	some := rows[:min(len(rows), planRows)]
	if err := printTable(s.err, s.view(), configureListing.columns, some, true); err != nil {
		return err
	}
	if n := int(look.record.GetChanged()) - len(some); n > 0 {
		s.say("… and %d more", n)
	}
	s.sayAll(slices.Concat(unknownLines(rows, look), avoidLines(rows)))
	return nil
}

// configureArgs says an intent's values as they would be said on the command line.
func configureArgs(q *intentv1.Configure) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(q.GetSet())) {
		words = append(words, "--set "+quote(k+"="+q.Set[k]))
	}
	for _, k := range q.GetUnset() {
		words = append(words, "--unset "+k)
	}
	return strings.Join(words, " ")
}
