// Command image-catalog runs the service that answers what can be installed. See package process for
// its flags and subcommands.
package main

import (
	"context"
	"flag"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/process"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
)

func main() {
	var cfg catalog.Config
	process.Main(process.Spec{
		View: catalog.View,
		Flags: func(fs *flag.FlagSet) {
			fs.Var(&cfg.Keys, "image-key",
				"accept only images signed by the public `KEY` (repeatable: by one of them; "+
					"default: no signature is needed)")
			config.Checked(fs, &cfg.Limits.User, "user-budget", uint64(budget.DefaultUser),
				"how many `BYTES` of facts one user may cause in a day; beyond, requests are refused; the same "+
					"as of the registry", config.From[uint64](64<<10))
		},
		Run: func(ctx context.Context, e process.Env) error {
			cfg.Conn, cfg.Store, cfg.AcceptLedger = e.Conn, e.Store, e.AcceptLedger
			cfg.Debug, cfg.Metrics, cfg.Log = e.Debug, e.Metrics, e.Log
			c, err := catalog.New(cfg)
			if err != nil {
				return err
			}
			return c.Run(ctx)
		},
	})
}
