// Command image-catalog answers what can be installed. See package process for its
// flags and subcommands.
package main

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/process"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

func main() {
	process.Main(process.Spec{
		Name: ledger.Catalog, View: func() fold.View { return view.New() }, Layout: view.Layout, Nouns: view.Nouns, Run: run,
	})
}

func run(ctx context.Context, e process.Env) error {
	c, err := catalog.New(catalog.Config{Conn: e.Conn, Store: e.Store, Log: e.Log})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
