// Command task-dispatcher runs the service that decides when, in what order and how
// fast what is wanted comes to the servers.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/process"

	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

func main() {
	var c dispatcher.Config
	process.Main(process.Spec{
		Name: ledger.Dispatcher, View: dispatcher.NewView, Layout: dispatcher.Layout, Nouns: dispatcher.Nouns,
		Flags: func(fs *flag.FlagSet) {
			lasting := config.Lasting(time.Millisecond)
			config.Checked(fs, &c.Concurrency, "concurrency", dispatcher.DefaultConcurrency, "how many tasks are under way at once, at most", config.From(1))
			config.Checked(fs, &c.QueuedDeadline, "queued-deadline", dispatcher.DefaultQueuedDeadline, "how long a task may wait for its turn", lasting)
			config.Checked(fs, &c.TaskDeadline, "task-deadline", dispatcher.DefaultTaskDeadline, "how long a task may be under way", lasting)
			config.Checked(fs, &c.TakeOverAfter, "take-over-after", dispatcher.DefaultTakeOverAfter, "how long another dispatcher may do nothing while there is something to admit", lasting)
		},
		Run: func(ctx context.Context, e process.Env) error {
			c.Conn, c.Store, c.AcceptLedger, c.Log = e.Conn, e.Store, e.AcceptLedger, e.Log
			return dispatcher.New(c).Run(ctx)
		},
	})
}
