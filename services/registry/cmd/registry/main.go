// Command registry runs the registry; see package registry.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/registry"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func main() {
	var c registry.Config
	var signer string
	process.Main(process.Spec{
		Name: ledger.Registry, Layout: view.Layout, Nouns: view.Nouns,
		View: func() fold.View { return view.New() },
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&signer, "signer", "", "`DIRECTORY` of the keys that admit servers; without it none can be invited or enrolled")
			config.Checked(fs, &c.JoinURL, "join-url", "nats://127.0.0.1:4222", "`URL` where invited servers find the bus", config.BusURL)
			fs.Var(&c.ImageKeys, "image-key", "public `KEY` of which a server that enrols takes images only when one signed them; may be repeated")
			config.Checked(fs, &c.BeatInterval, "beat-interval", registry.DefaultBeatInterval, "how often servers beat", config.Lasting(time.Millisecond))
		},
		Run: func(ctx context.Context, e process.Env) error {
			c.Conn, c.Store, c.AcceptLedger, c.Log = e.Conn, e.Store, e.AcceptLedger, e.Log
			if signer != "" {
				s, err := trust.OpenSigner(signer)
				if err != nil {
					return err
				}
				c.Signer = s
			}
			r, err := registry.New(c)
			if err != nil {
				return err
			}
			return r.Run(ctx)
		},
	})
}
