package operator

import (
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

No version moves: a server keeps what runs, also where another version is wanted because that one was
undone, cancelled or expired. With --bring-wanted the wanted version comes too.`,
		Example: "  garrison app update net --metadata resolver=10.0.0.2\n" +
			"  garrison configure beacon --on env=prod\n" +
			"  garrison configure beacon --set level=debug --on web-1",
		Args: exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			ask.Agent = a[0]
			if err := checkConfigure(ask); err != nil {
				return err
			}
			if ask.On, err = w.selector(); err != nil {
				return err
			}
			i := &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: ask}}
			p := proposal{verb: topology.VerbConfigure, question: "Configure", asks: asked(i)}
			return s.propose(c.Context(), w, p)
		},
	}
	pairsVar(c.Flags(), &ask.Set, "set", "set a value of the servers' own, `NAME=VALUE`; may be said again", parseValue)
	namesVar(c.Flags(), &ask.Unset, "unset", metadata.CheckName, "take a value of the servers' own away, `NAME`; may be said again")
	c.Flags().BoolVar(&ask.BringWanted, "bring-wanted", false,
		"also bring the version that is wanted, where another one runs")
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

// configureArgs says an intent's values as they would be said on the command line.
func configureArgs(q *intentv1.Configure) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(q.GetSet())) {
		words = append(words, "--set "+quote(k+"="+q.Set[k]))
	}
	for _, k := range q.GetUnset() {
		words = append(words, "--unset "+k)
	}
	if q.GetBringWanted() {
		words = append(words, "--bring-wanted")
	}
	return strings.Join(words, " ")
}
