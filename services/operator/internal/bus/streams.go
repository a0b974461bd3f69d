package bus

import (
	"github.com/spf13/cobra"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
