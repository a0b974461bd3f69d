package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/invariant"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// verifyWithin bounds how long it may take until nothing is under way. Other scenarios run meanwhile.
const verifyWithin = 2 * time.Minute

// Acknowledged records an intent that the bus acknowledged to its publisher.
func (f *Fleet) Acknowledged(id string) { f.acknowledged = append(f.acknowledged, id) }

// Verify waits until nothing is under way, and returns an error for every invariant that
// the ledger breaks then, among them that each acknowledged intent is decided exactly
// once. It first revives what a scenario left dead or paused of the control plane.
func (f *Fleet) Verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	if err := f.revive(ctx); err != nil {
		return err
	}
	c, err := f.dialCore()
	if err != nil {
		return err
	}
	defer c.Close()
	return errors.Join(invariant.Await(ctx, c, f.acknowledged, f.Foreign...)...)
}

// LedgerEnd returns the last sequence of the ledger, as the bus has it.
func (f *Fleet) LedgerEnd(ctx context.Context) (uint64, error) {
	c, err := f.dialCore()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s, err := c.Stream(ctx, topology.Ledger)
	return s.LastSequence, err
}

// dialCore connects as the user that provisions the streams.
func (f *Fleet) dialCore() (*bus.Conn, error) {
	user := topology.UserProvision
	var ca bus.TLS
	if f.Networks { // another host than loopback needs TLS
		ca.CA = func() ([]byte, error) { return os.ReadFile(f.CAFile()) }
	}
	return bus.Dial(bus.Options{
		URL: f.URL(), TLS: ca, Name: user, Log: zerolog.Nop(), Persist: true, MaxBackoff: time.Second,
		Credentials: trust.ReadCredentials(f.path("data", "trust", "services", user+".creds")),
	})
}

func (f *Fleet) revive(ctx context.Context) error {
	for _, p := range append([]*Process{f.Garrisond}, f.Members...) {
		if err := p.Revive(); err != nil {
			return err
		}
	}
	for _, p := range f.Services {
		if err := p.Revive(); err != nil {
			return err
		}
	}
	return f.WaitReady(ctx)
}

// verifyAtEnd is the last check of every fleet whose services were ready once.
func (f *Fleet) verifyAtEnd() error {
	if !f.wasReady {
		return nil
	}
	if err := f.Verify(context.Background()); err != nil {
		return fmt.Errorf("at the end of the scenario: %w", err)
	}
	return nil
}
