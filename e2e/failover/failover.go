package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/simulated"
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
	Started []time.Duration // from a task's assignment to its start, by the times at which the bus stored both, sorted
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
	*fleet.Fleet
	options Options
	runner  *simulated.Runner
	load    *load
	watcher *watcher
	at      int // how many upgrades began
}

// Run takes the servers of the bus away, one loss after another. The fleet must be one of a cluster that was not
// started; the caller closes it, which checks the whole ledger once more. A server of the bus that ends by itself ends
// the run, with the end of its log.
func Run(ctx context.Context, f *fleet.Fleet, o Options) (rows []Row, err error) {
	err = guarded(ctx, f, func(ctx context.Context) error {
		rows, err = run(ctx, f, o)
		return err
	})
	return rows, err
}

func run(ctx context.Context, f *fleet.Fleet, o Options) (rows []Row, err error) {
	s := &site{Fleet: f, options: o, runner: simulated.New(f, simulated.Options{
		Servers: o.Servers, Within: o.Within, Flags: []string{"--duration", "200ms"},
	})}
	if err := s.runner.Prepare(ctx); err != nil {
		return nil, err
	}
	sim, err := s.runner.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { // it compares the ledger with what the servers did
		_, e := sim.Stop(o.Within)
		err = errors.Join(err, e)
	}()
	if err := s.within(ctx, s.runner.Online); err != nil {
		return nil, err
	}
	if _, err := f.CLI(ctx, "install", sample.Agent+"@1.0.0", "--on", "all", "--at-once"); err != nil {
		return nil, err
	}
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
	if s.load, err = s.publish(ctx); err != nil {
		return row, err
	}
	operators := s.operate(ctx, s.load.servers)
	err = s.lose(ctx, &row)
	operators.stop(&row)
	s.load.stop()
	if err != nil {
		return row, err
	}
	err = s.within(ctx, s.watcher.reaches(s.LedgerEnd))
	s.load.sum(&row)
	s.watcher.sum(&row)
	return row, err
}

// lose does what a row is about: it upgrades the fleet, takes servers of the bus away in the middle, brings them back
// and waits until everything is as before.
func (s *site) lose(ctx context.Context, row *Row) error {
	if row.Loss.Kind == Lagging {
		defer s.lagging(ctx, row.Loss.Member)()
	}
	began, upgraded := time.Now(), make(chan error, 1)
	go func() { upgraded <- s.upgrade(ctx) }()
	err := s.within(ctx, s.watcher.counts(s.options.Servers/3))
	if err == nil {
		err = row.Loss.begin(s.Fleet)
	}
	back := make(chan error, 1)
	time.AfterFunc(s.options.Lasts, func() { back <- row.Loss.end(s.Fleet) })
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
		if err := lag(ctx, s.Members[member]); err != nil {
			s.watcher.fail(err)
		}
	}()
	return func() { cancel(); <-ended }
}

// upgrade brings the other version to every server and waits until it is there.
func (s *site) upgrade(ctx context.Context) error {
	s.at++
	version := []string{"1.0.0", "2.0.0"}[s.at%2]
	return s.within(ctx, func(ctx context.Context) error {
		_, err := s.CLI(ctx, "up", sample.Agent+"@"+version, "--on", "all", "--yes", "--at-once")
		return err
	})
}

// calm waits until every server of the bus is there and every simulated one is online.
func (s *site) calm(ctx context.Context) error {
	for {
		_, err := s.CLI(ctx, "bus", "status")
		if err == nil {
			return s.runner.Online(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
