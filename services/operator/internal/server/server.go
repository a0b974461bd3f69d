package server

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Commands returns the command server with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("server", "Manage servers: the machines that run agents.",
		enrollCommand(env), listCommand(env), showCommand(env), labelCommand(env), moveCommand(env),
		refreshCommand(env), scanCommand(env), candidatesCommand(env),
		quarantineCommand(env), releaseCommand(env), revokeCommand(env),
		renameCommand(env), replaceCommand(env), reinstallCommand(env), decommissionCommand(env),
		tombstoneCommand(env),
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
				{"MEMORY", output.Size(info.GetMemoryBytes())},
				{
					"PROCESSORS",
					strings.TrimSpace(fmt.Sprint(info.GetProcessors()) + " " + info.GetProcessorModel()),
				},
				{"ADDRESSES", strings.Join(info.GetAddresses(), "\n")},
				{"BOOTED", output.Stamp(info.GetBootedAt())},
				{"EPOCH", output.Count(found.GetEpoch())},
				{"TROUBLE", display.TroubleLines(env.Output.View(), found)},
				{"WAITS-FOR", display.DutyLines(found)},
				{"TRACES", display.FoundLines(output.View{At: env.Now(), Wide: true}, found)},
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
	c := &cobra.Command{
		Use:     "refresh [SERVER]…",
		Example: "  garrison server refresh web-1 web-2",
		Short:   "Have servers report their inventory.",
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				w.Servers.On = append(w.Servers.On, strings.Join(a, ","))
			}
			on, err := w.Selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
			return work.Publish(c.Context(), env, w, watch.Order{Verb: topology.VerbRefresh, Intent: ask})
		},
	}
	w.Add(c, true)
	return c
}
