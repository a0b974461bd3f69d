// Package labelrule is the command label-rule.
package labelrule

import (
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/selection"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

type rule = *labelrulev1.LabelRule

var table = listing.Listing[rule]{
	Name: rule.GetName,
	Columns: []listing.Column[rule]{
		listing.Col("NAME", rule.GetName),
		listing.Col("WHEN", func(r rule) string { return selection.Text(r.GetWhen()) }),
		listing.Col("LABELS", func(r rule) string { return listing.Pairs(r.GetLabels()) }),
		listing.Col("SERVERS", func(r rule) string { return listing.Count(uint64(r.GetServers())) }).Numeric(),
		listing.Wide("SET", func(r rule) string { return listing.Stamp(r.GetSetAt()) }),
		listing.Wide("BY", rule.GetSetBy),
		listing.Wide("REVISION", func(r rule) string { return listing.Count(r.GetRevision()) }).Numeric(),
	},
}

// Commands returns the command label-rule with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	listCommand := cli.ListCommand[*registryv1.ListRecordsResponse](
		env, "label-rule", "List label rules.", table, record.List(ledger.LabelRule))
	return cli.Group("label-rule", "Manage rules by which servers get labels from what their machines are.",
		setCommand(env), listCommand, unsetCommand(env))
}

func setCommand(env *cli.Env) *cobra.Command {
	var when []string
	q := &labelrulev1.LabelRule{}
	c := &cobra.Command{
		SuggestFor: []string{"create", "add", "update"},
		Use:        "set NAME --when SELECTOR --label LABEL=VALUE",
		Short:      "Set a rule; servers that meet it get its labels, now and whenever they change.",
		Long: `Set a rule, or replace the one of that name. Every server that meets all of its conditions gets its
labels, and loses them when it meets them no more. A label that an operator set on the server wins. Of two rules for
one label, the one whose name sorts first wins. A condition is about platform, os, arch, hostname, kernel,
distribution, cpus, memory, executor, name, env or cell, and never about a label.`,
		Example: "  garrison label-rule set smartos --when os=illumos --label platform=smartos\n" +
			"  garrison label-rule set large --when 'memory>=256GiB,cpus>=32' --label size=large",
		Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, table),
		RunE: func(c *cobra.Command, a []string) error {
			if len(when) == 0 || len(q.Labels) == 0 {
				return cli.Usage("--when and --label are required. Try: garrison label-rule set %s --when os=linux "+
					"--label LABEL=VALUE", a[0])
			}
			conditions, err := selector.Where("--when", when)
			if err != nil {
				return err
			}
			q.Name, q.When = a[0], conditions
			set, _, err := cli.Put[rule](c.Context(), env, record.Set(q))
			if err != nil {
				return err
			}
			return cli.Changed(env, table, set, "rule %s set; it matches %s", q.Name,
				listing.Plural(int(set.GetMatches()), "server"))
		},
	}
	c.Flags().StringArrayVar(&when, "when", nil, "`SELECTOR` of conditions, as for --on; repeatable, all must match")
	cli.PairsVar(c.Flags(), &q.Labels, "label", "a label, `LABEL=VALUE`; repeatable", cli.ParseLabel)
	revision(c, &q.Revision)
	return c
}

// revision adds the flag for the revision of a rule that a change is based on.
func revision(c *cobra.Command, to *uint64) {
	cli.RevisionVar(c.Flags(), to, "refuse unless the rule has this `REVISION`, which label-rule list -o wide prints")
}

func unsetCommand(env *cli.Env) *cobra.Command {
	q := record.Delete(ledger.LabelRule, "", 0)
	c := &cobra.Command{
		Use: "unset NAME", Example: "  garrison label-rule unset smartos", SuggestFor: []string{"delete", "remove"},
		Short: "Remove a rule, and the labels that servers have by it.", Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			q.Key = a[0]
			deleted, err := cli.Delete[rule](c.Context(), env, q)
			if err != nil {
				return err
			}
			for _, was := range deleted {
				env.Say("rule %s removed; %d servers had a label by it", a[0], was.GetServers())
			}
			return nil
		},
	}
	revision(c, &q.IfRevision)
	return c
}
