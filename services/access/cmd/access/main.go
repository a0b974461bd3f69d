// Command access runs the service that answers who may connect. See package process for its flags and
// subcommands.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/access"
)

func main() {
	var dir, system string
	process.Main(process.Spec{
		View: access.View,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&dir, "trust", "", "the `DIRECTORY` of the authority, whose keys sign users and accounts")
			fs.StringVar(&system, "system-credentials", "", "credentials `FILE` of "+topology.UserAccessSystem)
		},
		Run: func(ctx context.Context, e process.Env) error {
			issuer, err := trust.OpenIssuer(dir)
			if err != nil {
				return fmt.Errorf("--trust: %w", err)
			}
			conn, err := e.Dial(topology.UserAccessSystem, system)
			if err != nil {
				return err
			}
			defer conn.Close()
			a, err := access.New(access.Config{
				Conn: e.Conn, System: bus.NewSystem(conn), Issuer: issuer, CA: e.CA, Store: e.Store,
				AcceptLedger: e.AcceptLedger, Debug: e.Debug, Metrics: e.Metrics, Log: e.Log,
			})
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	})
}
