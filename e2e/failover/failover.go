// Package failover takes servers of the bus away from a site of three garrisonds with simulated servers, while intents
// come at a constant rate, a client follows the ledger and an upgrade of the fleet is under way. Each loss is a row
// with what it cost: time, and what may never happen.
package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	"github.com/garrison-fleet/garrison/pkg/client"
)

// Options say what is lost, and of how large a site.
type Options struct {
	Servers int           // simulated
	Every   time.Duration // between two intents
	Lasts   time.Duration // how long a server of the bus is away
	Within  time.Duration // bounds each step
	Losses  []Loss
	Report  func(Row) // called after each row; may be nil
}

// Row is what a loss cost.
type Row struct {
	Loss    Loss
	Rows    int             // that a total sums up; 0 means it is a row
	Leader  bool            // the first server that was lost led the ledger
	Gap     time.Duration   // the longest time between two acknowledgements of intents
	Waited  []time.Duration // from an intent's first try to its acknowledgement, sorted
	Ended   []time.Duration // from a task's assignment to its end, by the times at which the bus stored both, sorted
	Decided time.Duration   // the longest time from an intent's first try to its decision
	Upgrade time.Duration   // how long the upgrade of all servers took
	Settled time.Duration   // from the return of what was lost until every server of the bus and of the fleet was there
	Intents int             // that were acknowledged
	Verb    time.Duration   // how long the slowest command took
	Wrong   Wrong
}

// Wrong counts what may not happen.
type Wrong struct {
	Offline int // servers that were called offline; none of them was away
	Lost    int // intents that were acknowledged and not decided
	Unheard int // intents that were not acknowledged in time, though they were repeated
	Doubled int // facts that repeat what may happen once to a task or an intent
	Reads   int // answers and facts that contradict an earlier one
	Verbs   int // commands that failed
}

// Judge returns an error for every row with something that may not happen.
func Judge(rows []Row) error {
	var errs []error
	for _, r := range rows {
		if r.Wrong != (Wrong{}) || r.Intents == 0 {
			errs = append(errs, fmt.Errorf("%s: %d intents, %+v", r.Loss, r.Intents, r.Wrong))
		}
	}
	return errors.Join(errs...)
}

// site is what the rows have in common.
type site struct {
	*rig.Fleet
	options Options
	runner  *simulated.Runner
	client  *client.Client
	servers []string // ids
	watcher *watcher
}

// Run takes the servers of the bus away, one loss after another. The fleet must be one of a cluster that was not
// started; the caller closes it, which checks the whole ledger once more. A server of the bus that ends by itself ends
// the run, with the end of its log.
func Run(ctx context.Context, f *rig.Fleet, o Options) (rows []Row, err error) {
	err = guarded(ctx, f, func(ctx context.Context) error {
		rows, err = run(ctx, f, o)
		return err
	})
	return rows, err
}

func run(ctx context.Context, f *rig.Fleet, o Options) (rows []Row, err error) {
	s := &site{Fleet: f, options: o, runner: simulated.New(f, simulated.Options{
		Servers: o.Servers, Within: o.Within, Flags: []string{"--duration", "200ms"},
	})}
	defer func() { // it compares the ledger with what the servers did
		_, e := s.runner.Stop()
		err = errors.Join(err, e)
	}()
	if err := s.runner.Installed(ctx); err != nil {
		return nil, err
	}
	if s.client, err = s.Client(ctx, tryWithin); err != nil {
		return nil, err
	}
	defer s.client.Close()
	for server, err := range s.client.Servers(ctx, nil) {
		if err != nil {
			return nil, err
		}
		s.servers = append(s.servers, server.GetId())
	}
	s.Intents.Client = s.client
	for _, l := range o.Losses {
		row, err := s.row(ctx, l)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", l, err)
		}
		if rows = append(rows, row); o.Report != nil {
			o.Report(row)
		}
	}
	return rows, nil
}

// within bounds a step.
func (s *site) within(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Within)
	defer cancel()
	return step(ctx)
}

// row measures one loss.
func (s *site) row(ctx context.Context, l Loss) (row Row, err error) {
	row.Loss = l
	if row.Leader, err = s.leads(ctx, l); err != nil {
		return row, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.watcher, err = s.watch(ctx); err != nil {
		return row, err
	}
	defer s.watcher.stop()
	published := s.publish(ctx)
	operators := s.operate(ctx)
	err = s.lose(ctx, &row)
	operators.stop(&row)
	published.stop(&row)
	if err != nil {
		return row, err
	}
	err = s.within(ctx, s.watcher.reaches(s.LedgerEnd))
	s.watcher.sum(&row)
	return row, err
}

// lose does what a row is about: it upgrades the fleet, takes servers of the bus away in the middle, brings them back
// and waits until everything is as before.
func (s *site) lose(ctx context.Context, row *Row) error {
	if row.Loss.Kind == Lagging {
		defer s.lagging(ctx, row.Loss.Member)()
	}
	loss := row.Loss.fault(s.Fleet)
	began, upgraded := time.Now(), make(chan error, 1)
	go func() { upgraded <- s.runner.Change(ctx) }()
	err := s.within(ctx, s.watcher.counts(s.options.Servers/3))
	if err == nil {
		err = loss.Start()
	}
	back := make(chan error, 1)
	time.AfterFunc(s.options.Lasts, func() { back <- loss.Stop() })
	err = errors.Join(err, <-upgraded)
	row.Upgrade = time.Since(began)
	if err = errors.Join(err, <-back); err != nil {
		return err
	}
	returned := time.Now()
	err = s.within(ctx, s.calm)
	row.Settled = time.Since(returned)
	return err
}

// lagging holds a server of the bus back until the result is called.
func (s *site) lagging(ctx context.Context, member int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := fault.Paused(s.Members[member]).Again(ctx, lagEvery-lagFor, lagFor); err != nil {
			s.watcher.fail(err)
		}
	}()
	return func() { cancel(); <-ended }
}

// calm waits until every server of the bus is there and every simulated one is online.
func (s *site) calm(ctx context.Context) error {
	return rig.Until(ctx, "the bus is whole", func(ctx context.Context) error {
		_, err := s.CLI(ctx, "bus")
		if err == nil {
			err = s.runner.Online(ctx)
		}
		return err
	})
}

// guarded does something until it is done, or a server of the bus ended by itself: then its error has the end of that
// server's log, and what else failed because of it is left out.
func guarded(ctx context.Context, f *rig.Fleet, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for f.MemberEnded() == nil {
			if rig.Sleep(ctx, 100*time.Millisecond) != nil {
				return
			}
		}
		cancel()
	}()
	err := do(ctx)
	if ended := f.MemberEnded(); ended != nil {
		return ended
	}
	return err
}
