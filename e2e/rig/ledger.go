package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig/verify"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// verifyWithin bounds how long it may take until nothing is under way. Other scenarios run meanwhile.
const verifyWithin = 2 * time.Minute

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
	return errors.Join(verify.Await(ctx, c, f.Intents.IDs(), f.Foreign...)...)
}

// EqualView is the live view of a service that equals a fold of the ledger.
type EqualView struct {
	Service  string
	Position uint64 // the last fact in it
	Bytes    int
}

// EqualViews compares each service's live view with a fold of the ledger up to the same fact in a new process, byte for
// byte. It asks each service so many times, since whichever replica is free answers.
func (f *Fleet) EqualViews(ctx context.Context, times int) (equal []EqualView, err error) {
	c, err := f.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, service := range topology.Services {
		fresh := map[uint64][]byte{}
		for range times {
			v, e := f.equalView(ctx, c, service, fresh)
			if err = errors.Join(err, e); e != nil {
				break
			}
			equal = append(equal, v)
		}
	}
	return equal, err
}

// equalView compares a service's live view. fresh has the folds that were made, by their last fact.
func (f *Fleet) equalView(
	ctx context.Context, c *client.Client, service string, fresh map[uint64][]byte,
) (v EqualView, err error) {
	live, err := client.CallService[*apiv1.ViewResponse](ctx, c, service, &apiv1.ViewRequest{})
	if err != nil {
		return v, err
	}
	if fresh[live.Position] == nil {
		file := f.path(service + ".view")
		if _, err = f.View(ctx, service, live.Position, file); err == nil {
			fresh[live.Position], err = os.ReadFile(file)
		}
		if err != nil {
			return v, fmt.Errorf("fold %s afresh: %w", service, err)
		}
	}
	rebuilt := fresh[live.Position]
	digest := sha256.Sum256(rebuilt)
	if len(rebuilt) == 0 || !bytes.Equal(live.Digest, digest[:]) ||
		len(live.Canonical) > 0 && !bytes.Equal(live.Canonical, rebuilt) {
		return v, fmt.Errorf("the view of %s at %d differs: live %d bytes, rebuilt %d", service, live.Position,
			live.SizeBytes, len(rebuilt))
	}
	return EqualView{service, live.Position, len(rebuilt)}, nil
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
	for _, p := range f.Processes() {
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
