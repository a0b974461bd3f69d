package simulated

import (
	"context"
	"errors"
	"fmt"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/pkg/client"
)

// Recovery is what a kill of garrisond in the middle of an upgrade cost.
type Recovery struct {
	Ready   time.Duration // from the start after the kill until every service answered
	Ended   time.Duration // from that start until the upgrade had ended
	Offline int           // facts that call a server offline; all are false, since none is away
}

// factsBefore is how many facts per server are in the ledger when garrisond is killed: the first two of an upgrade come
// before its server begins, so tasks are under way.
const factsBefore = 2.5

// upgradeKilled upgrades all servers, kills garrisond in the middle, and starts it again.
func (r *Runner) upgradeKilled(ctx context.Context) error {
	from, err := r.fleet.LedgerEnd(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Change(ctx) }()
	err = r.Grows(ctx, from+uint64(factsBefore*float64(r.options.Servers)))
	if err == nil {
		err = fault.Killed(r.fleet.Garrisond).Start()
	}
	if err != nil {
		return errors.Join(err, <-ended)
	}
	began := time.Now()
	err = r.fleet.Start(ctx)
	r.recovery.Ready = time.Since(began)
	err = errors.Join(err, <-ended)
	r.recovery.Ended = time.Since(began)
	if err != nil {
		return err
	}
	if err := r.Online(ctx); err != nil {
		return err
	}
	return r.countEnds(ctx, from)
}

// countEnds counts what the ledger says behind a sequence.
func (r *Runner) countEnds(ctx context.Context, from uint64) error {
	c, err := r.fleet.Client(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	succeeded := 0
	for e, err := range c.Events(ctx, client.Query{From: from + 1}) {
		if err != nil {
			return err
		}
		switch e.Fact.Body.(type) {
		case *taskv1.Succeeded:
			succeeded++
		case *serverv1.Offline:
			r.recovery.Offline++
		}
	}
	if succeeded != r.options.Servers && !r.options.Faulty {
		return fmt.Errorf("the upgrade ended and %d of %d tasks succeeded", succeeded, r.options.Servers)
	}
	return nil
}
