// Command image-catalog runs the service that answers what can be installed. See package process for
// its flags and subcommands.
package main

import (
	"context"
	"flag"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/process"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

func main() {
	var config catalog.Config
	process.Main(process.Spec{
		Name: ledger.Catalog, View: func() fold.View { return view.New() }, Layout: view.Layout, Nouns: view.Nouns,
		Flags: func(fs *flag.FlagSet) {
			fs.Var(&config.Keys, "image-key",
				"accept only images signed by the public `KEY` (repeatable: by one of them; "+
					"default: no signature is needed)")
		},
		Run: func(ctx context.Context, e process.Env) error {
			config.Conn, config.Store, config.AcceptLedger = e.Conn, e.Store, e.AcceptLedger
			config.Debug, config.Metrics, config.Log = e.Debug, e.Metrics, e.Log
			c, err := catalog.New(config)
			if err != nil {
				return err
			}
			return c.Run(ctx)
		},
	})
}
