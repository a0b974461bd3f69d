// Command garrison-sim simulates servers: N executors whose engine is pretended and whose link to the bus is real.
//
//	garrison-sim --dir DIR --servers N --token-file FILE [--context FILE] [--failing 0.05] …
//
// At SIGINT or SIGTERM, or after --for, it compares the ledger with what its servers did and prints what it saw. It
// exits with 0 when both agree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/services/executor/simulation"
)

func main() {
	ctx, stop := rungroup.Signals()
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil:
	case errors.Is(err, config.ErrUsage):
	case fault.RefusalOf(err) != nil:
		fmt.Fprintln(os.Stderr, fault.Line(fault.RefusalOf(err)))
	default:
		fmt.Fprintln(os.Stderr, "garrison-sim:", err)
	}
	os.Exit(config.ExitCode(err))
}

type flags struct {
	*flag.FlagSet
	fleet            simulation.Config
	tokenFile, level string
	context, output  string
	lasts, settle    time.Duration
}

func newFlags() *flags {
	f := &flags{FlagSet: flag.NewFlagSet("garrison-sim", flag.ContinueOnError)}
	c := &f.fleet
	config.Checked(f.FlagSet, &c.Dir, "dir", "", "the `DIRECTORY` of the servers' keys and state", config.Text)
	config.Checked(f.FlagSet, &c.Servers, "servers", 0, "how `MANY` servers", config.From(1))
	config.Checked(f.FlagSet, &c.Name, "name", "sim", "the host names begin with it", config.Text)
	config.Checked(f.FlagSet, &f.tokenFile, "token-file", "",
		"a `FILE` with a pooled token; not needed once every server joined", config.File)
	config.Checked(f.FlagSet, &c.URL, "bus", "", "`URL` of the bus; default: the one in the token", config.BusURL)
	config.Checked(f.FlagSet, &c.Seed, "seed", 1, "decides faults and durations", config.From[uint64](0))
	config.Checked(f.FlagSet, &c.Duration, "duration", 200*time.Millisecond, "the mean duration of a task",
		config.Lasting(time.Millisecond))
	for _, s := range []struct {
		p           *float64
		name, usage string
	}{
		{&c.Shares.Failing, "failing", "share of servers on which each change fails"},
		{&c.Shares.Silent, "silent", "share of servers that begin no task"},
		{&c.Shares.Slow, "slow", "share of servers on which a task takes ten times as long"},
		{&c.Shares.Flapping, "flapping", "share of servers whose connection breaks every ten seconds"},
		{&c.Shares.Misleading, "misleading", "share of servers that report success and change nothing"},
		{&c.Shares.Hanging, "hanging", "share of servers on which a change of an agent that is there never ends"},
		{&c.Shares.Vanishing, "vanishing", "share of servers that go away forever once an agent is on them"},
	} {
		config.Checked(f.FlagSet, s.p, s.name, 0, s.usage+", from 0 to 1", share)
	}
	config.Checked(f.FlagSet, &c.Bad, "bad", simulation.Bad{}, "`VERSION=SHARE`: changes to this version are rolled "+
		"back on this share of servers, such as 2.0.0=0.05", bad)
	config.Checked(f.FlagSet, &c.BeatInterval, "beat-interval", 5*time.Second, "the time between two beats",
		config.Lasting(100*time.Millisecond))
	config.Checked(f.FlagSet, &c.PollInterval, "poll-interval", time.Minute,
		"the time between two readings of a document without a bell", config.Lasting(time.Second))
	f.BoolVar(&c.AllowPlain, "allow-plain", false, "connect to a bus on another host without TLS")
	config.Checked(f.FlagSet, &f.context, "context", "",
		"name or `FILE` of an operator's context; with it the ledger is checked", config.Text)
	config.Checked(f.FlagSet, &f.lasts, "for", 0, "end after this time; default: at a signal",
		config.Lasting(time.Second))
	config.Checked(f.FlagSet, &f.settle, "settle", 30*time.Second,
		"how long the ledger may take to agree with the servers at the end", config.Lasting(time.Second))
	config.Checked(f.FlagSet, &f.output, "o", "text", "text or json", config.OneOf("text", "json"))
	config.Checked(f.FlagSet, &f.level, "log-level", "error", "debug, info, warn or error", config.Level)
	return f
}

// share takes a part of a whole.
func share(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, errors.New("want a number from 0 to 1")
	}
	return p, nil
}

// bad takes a version that does not work everywhere.
func bad(s string) (b simulation.Bad, err error) {
	version, part, ok := strings.Cut(s, "=")
	if !ok || version == "" {
		return b, errors.New("want VERSION=SHARE, such as 2.0.0=0.05")
	}
	b.Version = version
	b.Share, err = share(part)
	return b, err
}

// parse reads the flags.
func parse(args []string) (*flags, error) {
	f := newFlags()
	if err := config.Parse(f.FlagSet, args, os.Getenv, os.Stderr); err != nil {
		return nil, err
	}
	for name, missing := range map[string]bool{"dir": f.fleet.Dir == "", "servers": f.fleet.Servers == 0} {
		if missing {
			return nil, config.Missing(f.FlagSet, name)
		}
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		f.fleet.Token = strings.TrimSpace(string(token))
	}
	log, err := logs.New(os.Stderr, "garrison-sim", f.level)
	f.fleet.Log = log
	return f, errors.Join(err, enoughFiles(f.fleet.Servers))
}

// enoughFiles refuses more servers than the process may have connections. The Go runtime raised the soft limit to the
// hard one.
func enoughFiles(servers int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if uint64(servers)+simulation.SpareFiles > limit.Cur {
		return fault.New(fault.Invalid, "%d servers need %d open files; the limit is %d. Raise it (ulimit -n), or "+
			"start several processes with a --dir and a --name each", servers, servers+simulation.SpareFiles, limit.Cur)
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	fleet, err := simulation.New(f.fleet)
	if err != nil {
		return err
	}
	began := time.Now()
	joined, err := fleet.Join(ctx)
	if err != nil {
		return err
	}
	if err := fleet.WriteFaults(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d of %d servers joined in %.1f s; running\n", joined, f.fleet.Servers,
		time.Since(began).Seconds())
	return f.work(ctx, fleet, summary{Servers: f.fleet.Servers, Joined: joined})
}

// work runs the fleet until ctx is done, and checks the ledger while the servers still run.
func (f *flags) work(ctx context.Context, fleet *simulation.Fleet, s summary) error {
	began := time.Now()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(running) }()
	if f.lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.lasts)
		defer cancel()
	}
	<-ctx.Done()
	s.Seconds = time.Since(began).Seconds()
	result, err := f.check(running, fleet)
	s.fill(fleet, result)
	stop()
	err = errors.Join(err, <-ended)
	if e := s.print(os.Stdout, f.output); e != nil {
		return errors.Join(err, e)
	}
	if n := len(s.Findings); n > 0 && err == nil {
		err = fmt.Errorf("the ledger and the servers differ in %d points", n)
	}
	return err
}
