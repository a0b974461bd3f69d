// Command executor runs on each server and does what the server's document says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor"
)

const usage = `usage: executor COMMAND [flags]

  join     use an invitation: executor join --token TOKEN --root DIR
  run      do what the server's document says, until stopped
  status   show what the executor in a root last told; works with the bus away
  health   end with 0 when the executor in a root runs
  version  print the version

Every flag can be set by the environment: GARRISON_ROOT for --root, and so on.
`

// joinWithin bounds a join; a container that is restarted joins again.
const joinWithin = 30 * time.Second

func main() {
	executor.Shim(os.Args)
	// An idle executor is on every server, so memory counts for more than speed.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(48 << 20)
	ctx, stop := lifecycle.Signals()
	err := command(ctx, os.Args[1:])
	stop()
	if errors.Is(err, config.ErrUsage) {
		os.Exit(config.ExitCode(err))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, line(err))
		os.Exit(1)
	}
}

// line gives the one line that a person reads.
func line(err error) string {
	if r := fault.RefusalOf(err); r != nil {
		return fault.Line(r)
	}
	return "executor: " + err.Error()
}

type flags struct {
	*flag.FlagSet
	root, token, url, level, output string
	stopAgents                      bool
	tokenFile                       string
	beat                            time.Duration
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return config.ErrUsage
	}
	f := &flags{FlagSet: flag.NewFlagSet("executor "+args[0], flag.ContinueOnError)}
	f.StringVar(&f.root, "root", "/var/lib/garrison", "the directory of everything that it keeps")
	switch args[0] {
	case "join":
		f.joinFlags()
		return f.then(args, func() error { return f.join(ctx, os.Stdout) })
	case "run":
		f.joinFlags()
		f.BoolVar(&f.stopAgents, "stop-agents", false, "end the agents with the executor")
		f.DurationVar(&f.beat, "beat-interval", 0, "how often it says that it lives; 0 means 5s")
		return f.then(args, func() error { return f.run(ctx) })
	case "status":
		f.StringVar(&f.output, "o", "text", "text or json")
		return f.then(args, func() error { return f.status(os.Stdout, os.Stderr) })
	case "health":
		return f.then(args, f.health)
	case "version", "--version":
		fmt.Println(version.Version)
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	fmt.Fprintf(os.Stderr, "executor: no command %q\n%s", args[0], usage)
	return config.ErrUsage
}

func (f *flags) joinFlags() {
	f.StringVar(&f.token, "token", "", "the invitation, from: garrison server enroll NAME")
	f.StringVar(&f.tokenFile, "token-file", "", "a file with the invitation, instead of --token")
	f.StringVar(&f.url, "bus", "", "where the bus is; empty means as the token says")
	f.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
}

func (f *flags) then(args []string, do func() error) error {
	if err := config.Parse(f.FlagSet, args[1:], os.Getenv, os.Stderr); err != nil {
		return err
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("read the invitation: %w", err)
		}
		f.token = string(token)
	}
	return do()
}

func (f *flags) logger() (zerolog.Logger, error) { return logs.New(os.Stderr, "executor", f.level) }

func (f *flags) join(ctx context.Context, out io.Writer) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	id, err := executor.Join(ctx, executor.Invitation{Root: f.root, Token: f.token, URL: f.url, Log: log})
	if err != nil {
		return err
	}
	if s, e := executor.ReadStatus(f.root); e == nil && s.State == executor.StateDecommissioned && s.ServerID == id {
		fmt.Fprintf(out, "server %s was decommissioned; this token is spent\n", id)
		return nil
	}
	fmt.Fprintf(out, "joined as server %s\n", id)
	return nil
}

func (f *flags) run(ctx context.Context) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	if f.token != "" {
		if err := f.join(ctx, io.Discard); err != nil {
			return err
		}
	}
	err = executor.New(executor.Config{Root: f.root, URL: f.url, StopAgents: f.stopAgents, BeatInterval: f.beat, Log: log}).Run(ctx)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("%w; join first: executor join --token TOKEN --root %s", err, f.root)
	}
	return err
}

func (f *flags) health() error {
	s, err := executor.ReadStatus(f.root)
	if err != nil {
		return err
	}
	return s.Fresh(time.Now())
}

func (f *flags) status(out, stderr io.Writer) error {
	if f.output != "text" && f.output != "json" {
		fmt.Fprintf(stderr, "executor status: -o %q is not a format (want text or json)\n", f.output)
		return config.ErrUsage
	}
	s, err := executor.ReadStatus(f.root)
	if err != nil {
		return err
	}
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	return s.Print(out, time.Now())
}
