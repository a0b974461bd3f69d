// Package bus builds the command garrison bus, which shows the state of the bus.
package bus

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type server = *accessv1.BusServer

// servers lists the servers of the bus.
var servers = listing.Listing[server]{
	Name: server.GetName,
	Columns: []listing.Column[server]{
		listing.Col("SERVER", server.GetName),
		listing.Col("STATE", state),
		listing.Col("VERSION", server.GetVersion),
		listing.Col("SYNC", sync),
		listing.Col("USED", func(s server) string { return answered(s, listing.Size(s.GetUsedBytes())) }),
		listing.Col("FREE", func(s server) string {
			if s.FreeBytes == nil {
				return answered(s, "the disk")
			}
			return listing.Size(s.GetFreeBytes())
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

// Command returns the command bus.
func Command(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "bus",
		Short: "Show the servers and the streams of the bus, and what is wrong with them.",
		Long: `Show the servers of the bus with their versions, the replicas of its streams, and what is wrong with
them. The exit code is 0 when nothing is wrong, and 3 when something is. FREE is how much the streams may
still grow; where nats-server has no limit of its own, the disk is the limit. LAG is how many operations a
replica is behind its leader, SEQUENCE the last message that it holds; MESSAGES and SIZE are those of the
stream. --columns, --sort and -o name are for the servers, and leave the streams out.`,
		Example: "  garrison bus\n  garrison bus -o json",
		Args:    cli.Exactly(), PreRunE: cli.Prints(env, servers),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := cli.Call[*accessv1.GetBusResponse](c.Context(), env, &accessv1.GetBusRequest{})
			if err != nil {
				return err
			}
			if err := show(env, r); err != nil {
				return err
			}
			for _, a := range r.GetAlarms() {
				env.Say("%s: %s: %s. Try: %s", a.GetCause(), a.GetOf(), a.GetText(), a.GetCure())
			}
			if n := len(r.GetAlarms()); n > 0 {
				return cli.Ended(cli.ExitDifferent)
			}
			env.Say("%s, %s: nothing is wrong", listing.Plural(len(r.GetServers()), "server"),
				listing.Plural(len(r.GetStreams()), "stream"))
			return nil
		},
	}
}

// show prints the servers, and in a table that was not cut to some columns the streams below them.
func show(env *cli.Env, r *accessv1.GetBusResponse) error {
	p := env.Output
	if err := output.Show(p, servers, r, r.GetServers()); err != nil {
		return err
	}
	if !p.IsTable() || p.Filter != nil || p.Sort != "" || len(p.Columns) > 0 {
		return nil
	}
	var rows []replica
	for _, s := range r.GetStreams() {
		for _, c := range s.GetCopies() {
			rows = append(rows, replica{s, c})
		}
	}
	if _, err := fmt.Fprintln(p.Out); err != nil {
		return err
	}
	return output.Show(p, replicas, r, rows)
}

// replica is a replica of a stream on one server.
type replica struct {
	stream *accessv1.BusStream
	on     *accessv1.BusReplica
}

// replicas lists the replicas of streams.
var replicas = listing.Listing[replica]{
	Name: func(r replica) string { return r.stream.GetName() + "/" + r.on.GetServer() },
	Columns: []listing.Column[replica]{
		listing.Col("STREAM", func(r replica) string { return r.stream.GetName() }),
		listing.Col("SERVER", func(r replica) string { return r.on.GetServer() }),
		listing.Col("STATE", func(r replica) string { return replicaState(r.stream, r.on) }),
		listing.Col("LAG", func(r replica) string { return listing.Count(r.on.GetLag()) }).Numeric(),
		listing.Col("SEQUENCE", func(r replica) string { return listing.Count(r.on.GetLastSequence()) }).Numeric(),
		listing.Col("MESSAGES", func(r replica) string { return listing.Count(r.stream.GetMessages()) }).Numeric(),
		listing.Col("SIZE", func(r replica) string { return listing.Size(r.stream.GetBytes()) }),
	},
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
