package allinone

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/access"
	catalog "github.com/garrison-fleet/garrison/services/image-catalog"
	"github.com/garrison-fleet/garrison/services/registry"
	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

// addService creates one service, with a connection of its own.
func (g *Garrison) addService(name string) error {
	conn, err := g.dial(name)
	if err != nil {
		return err
	}
	var service interface{ Run(context.Context) error }
	store := filepath.Join(g.config.Data, "views")
	switch name {
	case topology.UserRegistry:
		signer, e := trust.OpenSigner(g.authority.SignerDir()) // err is of New
		if e != nil {
			return e
		}
		service, err = registry.New(registry.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger, Signer: signer,
			JoinURL: g.joinURL, Lobby: g.config.Lobby, CA: g.certs.Bundle, ImageKeys: g.config.ImageKeys,
			BeatInterval: g.config.Tuning.BeatInterval, ServerBudget: g.config.Tuning.ServerBudget,
			UserBudgets:       g.config.Tuning.UserBudgets,
			ServerCredentials: g.config.Tuning.ServerCredentials, BlockAfter: g.config.Tuning.BlockAfter,
			Secrets: g.secrets, TaskConcurrency: g.config.Tuning.Concurrency,
			Metrics: g.config.Metrics.Under(name),
			Debug:   g.config.Debug.Under(name), Log: g.logger(name), Now: time.Now, NewID: ident.New,
		})
	case topology.UserCatalog:
		service, err = catalog.New(catalog.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger, Keys: g.config.ImageKeys,
			Limits: g.config.Tuning.UserBudgets, Metrics: g.config.Metrics.Under(name),
			Debug: g.config.Debug.Under(name), Log: g.logger(name), Now: time.Now, NewID: ident.New,
		})
	case topology.UserDispatcher:
		service, err = dispatcher.New(dispatcher.Config{
			Conn: conn, Store: store, AcceptLedger: g.config.AcceptLedger, Secrets: g.secrets,
			Concurrency: g.config.Tuning.Concurrency, TaskDeadline: g.config.Tuning.TaskDeadline,
			LeastDeadline: g.config.Tuning.LeastDeadline, MostDeadline: g.config.Tuning.MostDeadline,
			Metrics: g.config.Metrics.Under(name),
			Debug:   g.config.Debug.Under(name), Log: g.logger(name), Now: time.Now, NewID: ident.New,
		})
	case topology.UserAccess:
		service, err = g.makeAccess(conn, store)
	default:
		return fmt.Errorf("unknown service %q", name)
	}
	if err != nil {
		return err
	}
	g.parts = append(g.parts, rungroup.Part{Name: name, Run: service.Run})
	return nil
}

// readSecretKey reads the key of secrets, and creates it when it is missing.
func readSecretKey(a *trust.Authority) (*secret.Key, error) {
	path, err := a.SecretKeyFile()
	if err != nil {
		return nil, err
	}
	return trust.ReadSecretKey(path)
}

// makeAccess creates the service access, with a second connection in the system account.
func (g *Garrison) makeAccess(conn *bus.Conn, store string) (*access.Access, error) {
	system, err := g.dial(topology.UserAccessSystem)
	if err != nil {
		return nil, err
	}
	issuer, err := trust.OpenIssuer(g.trustDir())
	if err != nil {
		return nil, err
	}
	return access.New(access.Config{
		Conn: conn, System: bus.NewSystem(system), Issuer: issuer, CA: g.certs.Bundle, Store: store,
		AcceptLedger: g.config.AcceptLedger,
		Metrics:      g.config.Metrics.Under(topology.UserAccess),
		Debug:        g.config.Debug.Under(topology.UserAccess), Log: g.logger(topology.UserAccess),
		Now: time.Now, NewID: ident.New,
	})
}
