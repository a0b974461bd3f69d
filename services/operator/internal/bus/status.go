package bus

import (
	"github.com/spf13/cobra"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type server = *accessv1.BusServer

// servers lists the servers of the bus.
var servers = output.Listing[server]{
	Name: server.GetName,
	Columns: []output.Column[server]{
		output.Col("SERVER", server.GetName),
		output.Col("STATE", state),
		output.Col("VERSION", server.GetVersion),
		output.Col("SYNC", sync),
		output.Col("USED", func(s server) string { return answered(s, output.Size(s.GetUsedBytes())) }),
		output.Col("FREE", func(s server) string {
			if s.FreeBytes == nil {
				return answered(s, "the disk")
			}
			return output.Size(s.GetFreeBytes())
		}),
	},
}

func state(s server) string {
	switch {
	case !s.GetAnswers():
		return "away"
	case s.GetLeads():
		return "leads"
	}
	return "follows"
}

func sync(s server) string {
	if s.GetSyncAlways() {
		return "always"
	}
	return answered(s, "later")
}

// answered returns a text for a server that answers.
func answered(s server, text string) string {
	if !s.GetAnswers() {
		return ""
	}
	return text
}

// Commands returns the command bus with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("bus", "Show the state of the bus: its servers, its streams and what is wrong with them.",
		statusCommand(env), streamsCommand(env))
}

func statusCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the servers of the bus, and what is wrong with them or with the streams.",
		Long: `Show the servers of the bus with their versions, and what is wrong with them or with the streams. The
exit code is 0 when nothing is wrong, and 3 when something is. FREE is how much the streams may still grow; where
nats-server has no limit of its own, the disk is the limit. garrison bus streams shows the replicas.`,
		Example: "  garrison bus status",
		Args:    cli.Exactly(), PreRunE: cli.Prints(env, servers),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := cli.Call[*accessv1.GetBusResponse](c.Context(), env, &accessv1.GetBusRequest{})
			if err != nil {
				return err
			}
			if err := output.Show(env.Output, servers, r, r.GetServers()); err != nil {
				return err
			}
			for _, a := range r.GetAlarms() {
				env.Say("%s: %s: %s. Try: %s", a.GetCause(), a.GetOf(), a.GetText(), a.GetCure())
			}
			if n := len(r.GetAlarms()); n > 0 {
				return cli.Ended(cli.ExitDifferent)
			}
			env.Say("%s, %s: nothing is wrong", output.Plural(len(r.GetServers()), "server"),
				output.Plural(len(r.GetStreams()), "stream"))
			return nil
		},
	}
}
