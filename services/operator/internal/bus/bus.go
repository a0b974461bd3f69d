// Package bus builds the commands of garrison bus, which show the state of the bus.
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

// replica is a replica of a stream on one server.
type replica struct {
	Stream       string `json:"stream"`
	Server       string `json:"server"`
	State        string `json:"state"`
	Lag          uint64 `json:"lag"`
	LastSequence uint64 `json:"last_sequence"`
	Messages     uint64 `json:"messages"` // of the stream
	Bytes        uint64 `json:"bytes"`    // of the stream
}

// replicaList is the document that holds replicas.
type replicaList struct {
	Replicas []replica `json:"replicas"`
}

// replicas lists the replicas of streams.
var replicas = output.Listing[replica]{
	Name: func(r replica) string { return r.Stream + "/" + r.Server },
	Columns: []output.Column[replica]{
		output.Col("STREAM", func(r replica) string { return r.Stream }),
		output.Col("SERVER", func(r replica) string { return r.Server }),
		output.Col("STATE", func(r replica) string { return r.State }),
		output.Col("LAG", func(r replica) string { return output.Count(r.Lag) }).Numeric(),
		output.Col("SEQUENCE", func(r replica) string { return output.Count(r.LastSequence) }).Numeric(),
		output.Col("MESSAGES", func(r replica) string { return output.Count(r.Messages) }).Numeric(),
		output.Col("SIZE", func(r replica) string { return output.Size(r.Bytes) }),
	},
}

func streamsCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "streams",
		Short: "Show the streams of the bus and the replicas of each.",
		Long: `Show the streams of the bus and the replicas of each, and how many operations each is behind its leader.
SEQUENCE is that of the last message that the replica holds; MESSAGES and SIZE are those of the stream.`,
		Example: "  garrison bus streams\n  garrison bus streams --sort lag",
		Args:    cli.Exactly(), PreRunE: cli.Prints(env, replicas),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := cli.Call[*accessv1.GetBusResponse](c.Context(), env, &accessv1.GetBusRequest{})
			if err != nil {
				return err
			}
			rows := []replica{}
			for _, s := range r.GetStreams() {
				for _, c := range s.GetCopies() {
					rows = append(rows, replica{
						s.GetName(), c.GetServer(), replicaState(s, c), c.GetLag(), c.GetLastSequence(),
						s.GetMessages(), s.GetBytes(),
					})
				}
			}
			return output.Show(env.Output, replicas, replicaList{rows}, rows)
		},
	}
}

func replicaState(s *accessv1.BusStream, c *accessv1.BusReplica) string {
	switch {
	case s.GetLeader() == c.GetServer():
		return "leads"
	case s.GetLeader() == "":
		return "without leader"
	case c.GetOffline():
		return "away"
	case c.GetCurrent():
		return "current"
	}
	return "behind"
}
