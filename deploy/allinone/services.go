package allinone

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
	"github.com/garrison-fleet/garrison/services/registry"
	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

// addService makes one service, with a connection of its own.
func (g *Garrison) addService(name string) error {
	conn, err := g.dial(name)
	if err != nil {
		return err
	}
	part := lifecycle.Part{Name: name}
	store := filepath.Join(g.config.Data, "views")
	switch name {
	case topology.UserRegistry:
		signer, err := trust.OpenSigner(g.authority.SignerDir())
		if err != nil {
			return err
		}
		s, err := registry.New(registry.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger, Signer: signer, JoinURL: g.url,
			BeatInterval: g.config.Tuning.BeatInterval, ImageKeys: g.config.ImageKeys, Log: g.logger(name), Now: time.Now, NewID: ident.New,
		})
		if err != nil {
			return err
		}
		part.Run = s.Run
	case topology.UserCatalog:
		s, err := catalog.New(catalog.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger, Keys: g.config.ImageKeys,
			Log: g.logger(name), Now: time.Now, NewID: ident.New,
		})
		if err != nil {
			return err
		}
		part.Run = s.Run
	case topology.UserDispatcher:
		part.Run = dispatcher.New(dispatcher.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger,
			Concurrency: g.config.Tuning.Concurrency, TaskDeadline: g.config.Tuning.TaskDeadline,
			Log: g.logger(name), Now: time.Now, NewID: ident.New,
		}).Run
	default:
		return fmt.Errorf("there is no service %q", name)
	}
	g.parts = append(g.parts, part)
	return nil
}
