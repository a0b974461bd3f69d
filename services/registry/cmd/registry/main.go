// Command registry runs the registry; see package registry.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/registry"
)

func main() {
	var c registry.Config
	var signer, secrets string
	process.Main(process.Spec{
		View: registry.View,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&signer, "signer", "",
				"`DIRECTORY` of the keys that admit servers; without it none can be invited or enrolled")
			fs.StringVar(&secrets, "secrets", "",
				"`FILE` with the key that seals the secrets of metadata; without it none can be set")
			config.Checked(fs, &c.JoinURL, "join-url", "nats://127.0.0.1:4222",
				"`URL` where invited servers find the bus", config.BusURL)
			fs.BoolVar(&c.Lobby, "lobby", false, "let machines without a token ask to join; the bus must let them in, "+
				"see default_sentinel of nats-server")
			fs.Var(&c.ImageKeys, "image-key",
				"public `KEY` for servers that enrol: they take only images that one of these keys signed; repeatable")
			config.Checked(fs, &c.BeatInterval, "beat-interval", registry.DefaultBeatInterval, "how often servers beat",
				config.Lasting(time.Millisecond))
			config.Checked(fs, &c.ServerBudget, "server-budget", registry.DefaultServerBudget,
				"how many `BYTES` the facts may have that one server causes in a day; beyond, it is quarantined",
				config.From[uint64](registry.LeastServerBudget))
			config.Checked(fs, &c.UserBudgets.User, "user-budget", registry.DefaultUserBudget,
				"how many `BYTES` of facts one user may cause in a day; beyond, requests and intents are refused",
				config.From[uint64](registry.LeastServerBudget))
			config.Checked(fs, &c.UserBudgets.Reporter, "reporter-budget", registry.DefaultReporterBudget,
				"how many `BYTES` of facts one reporter of external instances may cause in a day",
				config.From[uint64](registry.LeastServerBudget))
			config.Checked(fs, &c.BlockAfter, "block-after", registry.DefaultBlockAfter,
				"on how many `SERVERS` an image or a configuration fails before it is blocked on all others; "+
					"0 means never", config.From(0))
			config.Checked(fs, &c.TaskConcurrency, "task-concurrency", task.DefaultConcurrency,
				"how many tasks the task-dispatcher has under way at once, by its -concurrency; forecasts rest on it",
				config.From(1))
			config.Checked(fs, &c.ServerCredentials, "server-credentials", registry.DefaultServerCredentials,
				"how long the credentials of a server are valid; it renews them after half of that",
				config.Lasting(time.Minute))
		},
		Run: func(ctx context.Context, e process.Env) error {
			c.Conn, c.CA, c.Debug, c.Metrics, c.Log = e.Conn, e.CA, e.Debug, e.Metrics, e.Log
			c.Store, c.AcceptLedger = e.Store, e.AcceptLedger
			if signer != "" {
				s, err := trust.OpenSigner(signer)
				if err != nil {
					return err
				}
				c.Signer = s
			}
			var err error
			if c.Secrets, err = trust.ReadSecretKey(secrets); err != nil {
				return err
			}
			r, err := registry.New(c)
			if err != nil {
				return err
			}
			return r.Run(ctx)
		},
	})
}
