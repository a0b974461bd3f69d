// Package server builds the commands of garrison server, from enroll to forget.
package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/lobby"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Commands returns the command server with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("server", "Manage servers: the machines that run agents.",
		enrollCommand(env), lobby.AcceptCommand(env), lobby.RejectCommand(env), listCommand(env), showCommand(env),
		setCommand(env), refreshCommand(env),
		quarantineCommand(env), releaseCommand(env), revokeCommand(env),
		reinstallCommand(env), decommissionCommand(env),
		cleanCommand(env), forgetCommand(env))
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show SERVER",
		Example: "  garrison server show web-1",
		Short:   "Show all fields of a server.", Args: cli.Exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := fleet.Server(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			info := found.GetSysinfo()
			more := [][2]string{
				{"MEMORY", listing.Size(info.GetMemoryBytes())},
				{
					"PROCESSORS",
					strings.TrimSpace(fmt.Sprint(info.GetProcessors()) + " " + info.GetProcessorModel()),
				},
				{"ADDRESSES", strings.Join(info.GetAddresses(), "\n")},
				{"BOOTED", listing.Stamp(info.GetBootedAt())},
				{"EPOCH", listing.Count(found.GetEpoch())},
				{"TROUBLE", display.TroubleLines(env.Output.View(), found)},
				{"WAITS-FOR", display.DutyLines(found)},
				{"TRACES", display.FoundLines(listing.View{At: env.Now(), Wide: true}, found)},
			}
			if rules := display.RuleLabelLines(found); rules != "" {
				more = append(more, [2]string{"LABELS-BY-RULE", rules})
			}
			return output.ShowOne(env.Output, env.Output.View(), display.Servers, found, more...)
		},
	}
}

func refreshCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	var scan bool
	q := &serverv1.Scan{}
	c := &cobra.Command{
		Use:     "refresh [SERVER]…",
		Example: "  garrison server refresh web-1 web-2\n  garrison server refresh web-1 --scan",
		Short:   "Have servers report their inventory, or with --scan what runs there and is not Garrison's.",
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				w.Servers.On = append(w.Servers.On, strings.Join(a, ","))
			}
			if !scan && (q.GetAll() || len(q.GetDetectors()) > 0) {
				return cli.Usage("--all and --detector require --scan. Try: --on all, for every server")
			}
			on, err := w.Selector()
			if err != nil {
				return err
			}
			refresh := &intentv1.Refresh{On: on}
			if scan {
				refresh.Scan = q
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: refresh}}
			err = work.Publish(c.Context(), env, w, watch.Order{Verb: topology.VerbRefresh, Intent: ask})
			if err != nil || !scan || w.DryRun {
				return err
			}
			server := "SERVER"
			if len(a) == 1 {
				server = a[0]
			}
			env.Say("to read the list: garrison instance adopt %s --list", server)
			return nil
		},
	}
	w.Add(c, true)
	c.Flags().BoolVar(&scan, "scan", false, "report what runs there and is not Garrison's, for garrison instance adopt")
	c.Flags().BoolVar(&q.All, "all", false, "with --scan: also the distribution's base set, and processes that listen "+
		"on nothing")
	cli.NamesVar(c.Flags(), &q.Detectors, "detector", cli.Name("detector"), "with --scan: only these `DETECTORS`")
	return c
}

const examples = "  garrison server list --on env=prod --presence offline\n" +
	"  garrison server list --count-by env,platform"

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var on selector.Flags
	var counts cli.CountFlags
	var unconfirmed time.Duration
	var unknown, waiting bool
	q := &registryv1.ListServersRequest{}
	c := &cobra.Command{
		Use: "list", Example: examples,
		Short: "List servers, or count them; dead ones only with --life dead or --leaked.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case unknown:
				return listUnknown(env, c)
			case waiting:
				return listWaiting(env, c, page, on.On)
			}
			if q.Found && q.Leaked {
				return cli.Usage("--found and --leaked exclude each other: a dead server reports no agents")
			}
			var err error
			if q.On, err = on.Filter(); err != nil {
				return err
			}
			q.UnconfirmedFor = cli.Within(unconfirmed)
			if asked, err := counts.Asked(c); err != nil {
				return err
			} else if asked {
				return cli.Count[*registryv1.CountServersResponse](c.Context(), env,
					&registryv1.CountServersRequest{Filter: q, By: counts.By, Top: counts.Groups()})
			}
			var hold *registryv1.PresenceHeld
			rows := 0
			err = cli.List(
				c.Context(),
				env,
				page,
				display.Servers,
				func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
					q.Page = p
					r, err := cli.Call[*registryv1.ListServersResponse](ctx, env, q)
					rows += len(r.GetServers())
					if held := r.GetPresenceHeld(); held != nil {
						hold = held
					}
					return r, err
				},
			)
			if hold != nil {
				env.Say("%s", display.PresenceHeld(env.Output.View(), hold))
			}
			if err == nil && rows == 0 && len(q.On.GetLabels()) > 0 && env.Output.IsTable() {
				sayNearest(c.Context(), env, q.On)
			}
			return err
		},
	}
	on.Add(c)
	page.Add(c, 0)
	counts.Add(c, "env, presence, platform, os, arch, kernel, distribution, executor, cell, cpus, memory, life, "+
		"standing, condition, trouble, label.NAME")
	filters(c, q)
	cli.UnconfirmedVar(c.Flags(), &unconfirmed, "servers that")
	c.Flags().
		BoolVar(&unknown, "unknown", false, "list senders of beats that are not under management instead, as one "+
			"registry received them in the last two minutes")
	c.Flags().BoolVar(&waiting, "lobby", false, "list machines that ask to join without a token instead; --on is then "+
		"by what they say of themselves, or address=PREFIX")
	return c
}

// listWaiting lists the machines in the lobby; most filters of servers have no meaning for them.
func listWaiting(env *cli.Env, c *cobra.Command, page cli.PageFlags, on []string) (err error) {
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains([]string{"lobby", "on", "limit", "cursor", "watch", "interval"}, f.Name) {
			err = cli.Usage("--lobby and --%s exclude each other", f.Name)
		}
	})
	if err != nil {
		return err
	}
	return lobby.List(c.Context(), env, page, on)
}

// sayNearest names the term that a selector of no server most likely means.
func sayNearest(ctx context.Context, env *cli.Env, on *intentv1.Selector) {
	if near := fleet.NearestTerm(ctx, env, on); near != "" {
		env.Say("Nearest: --on %s", near)
	}
}

// filters adds the flags that select servers by one field.
func filters(c *cobra.Command, q *registryv1.ListServersRequest) {
	cli.TextVar(c.Flags(), &q.Environment, "env", cli.Name("environment"),
		"only servers of this `ENVIRONMENT`, or none")
	cli.PairsVar(c.Flags(), &q.Labels, "label", "only servers with this label, `LABEL=VALUE`; repeatable",
		cli.ParseLabel)
	cli.TextVar(c.Flags(), &q.Token, "token", cli.Name("token"), "only servers that joined with this pooled `TOKEN`")
	cli.WordVar(c.Flags(), &q.Life, "life", "only servers in this `LIFE`")
	c.Flags().BoolVar(&q.Leaked, "leaked", false, "only dead servers whose machine may still have something of "+
		"Garrison, with the reason: no report of the executor's end, files left, an unmanaged agent, or unknown "+
		"ownership; "+
		"never those enrolled with --provisioned, which end with their machine")
	c.Flags().BoolVar(&q.Found, "found", false, "only servers with unmanaged agents; see garrison explain SERVER")
	cli.WordVar(c.Flags(), &q.Presence, "presence", "only servers with this `PRESENCE`")
	cli.WordVar(c.Flags(), &q.Standing, "standing", "only servers of this `STANDING`")
	cli.WordVar(c.Flags(), &q.Condition, "condition", "only servers whose executor is in this `CONDITION`")
	cli.TextVar(c.Flags(), &q.Trouble, "trouble", cli.Code,
		"only servers with this trouble, the `CODE` that status and check name")
}

// listUnknown lists senders of beats that are not under management.
func listUnknown(env *cli.Env, c *cobra.Command) error {
	for _, other := range []string{
		"env", "label", "token", "life", "presence", "leaked", "found", "cursor", "limit", "on", "not", "standing",
		"condition", "trouble", "unconfirmed", "count", "count-by", "top",
	} {
		if c.Flags().Changed(other) {
			return cli.Usage("--unknown and --%s exclude each other: nothing is recorded about an unknown "+
				"server", other)
		}
	}
	q := &registryv1.ListUnknownServersRequest{}
	r, err := cli.Call[*registryv1.ListUnknownServersResponse](c.Context(), env, q)
	if err != nil {
		return err
	}
	if err := output.Show(env.Output, display.UnknownServers, r, r.GetServers()); err != nil {
		return err
	}
	if r.GetMore() {
		env.Say("there are more, but only these are kept")
	}
	return nil
}
