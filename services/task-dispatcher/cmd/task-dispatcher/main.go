// Command task-dispatcher runs the service that decides when, in what order and how fast changes
// reach the servers. See package process for its flags and subcommands.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/trust"

	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

func main() {
	var c dispatcher.Config
	var secrets string
	process.Main(process.Spec{
		View: dispatcher.View,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&secrets, "secrets", "",
				"`FILE` with the key that opens the secrets of metadata; without it no agent with a secret is changed")
			lasting := config.Lasting(time.Millisecond)
			config.Checked(fs, &c.Concurrency, "concurrency", dispatcher.DefaultConcurrency,
				"maximum number of concurrent tasks", config.From(1))
			config.Checked(fs, &c.QueuedDeadline, "queued-deadline", dispatcher.DefaultQueuedDeadline,
				"how long a task may wait in the queue", lasting)
			config.Checked(fs, &c.TaskDeadline, "task-deadline", dispatcher.DefaultTaskDeadline,
				"how long a task may be under way, until the fleet showed how long its kind takes", lasting)
			config.Checked(fs, &c.LeastDeadline, "task-deadline-least", dispatcher.DefaultLeastDeadline,
				"how long at least once it did; at most --task-deadline", lasting)
			config.Checked(fs, &c.MostDeadline, "task-deadline-most", dispatcher.DefaultMostDeadline,
				"how long at most once it did; at least --task-deadline", lasting)
			config.Checked(fs, &c.TakeOverAfter, "take-over-after", dispatcher.DefaultTakeOverAfter,
				"how long the leader may be idle while work is due, before this process takes over", lasting)
		},
		Run: func(ctx context.Context, e process.Env) error {
			c.Conn, c.Store, c.AcceptLedger, c.Log = e.Conn, e.Store, e.AcceptLedger, e.Log
			c.Debug, c.Metrics = e.Debug, e.Metrics
			var err error
			if c.Secrets, err = trust.ReadSecretKey(secrets); err != nil {
				return err
			}
			d, err := dispatcher.New(c)
			if err != nil {
				return err
			}
			return d.Run(ctx)
		},
	})
}
