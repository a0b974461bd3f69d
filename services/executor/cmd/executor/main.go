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
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor"
)

const usage = `usage: executor COMMAND [flags]

  join       use an invitation: executor join --token-file FILE --root DIR
  run        do what the server's document says, until stopped
  status     show what the executor in a root last told; works with the bus away
  health     end with 0 when the executor in a root runs and is not quarantined
  rehearse   look at a copy of the journal and at the bus, as the executor does before it replaces itself
  uninstall  remove the executor when its server is dead and a person made the machine; --dry-run shows the decision;
             --tombstone FILE is for when no executor runs any more
  version    print the version

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
	root, url, level, output string
	supervisor               string
	journal                  string
	stopAgents               bool
	invitation               invitation
	beat                     time.Duration
	keep                     executor.Keep
	imageKeys                seal.Keys
	clean                    cleanFlags
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return config.ErrUsage
	}
	f := &flags{FlagSet: flag.NewFlagSet("executor "+args[0], flag.ContinueOnError)}
	config.Checked(f.FlagSet, &f.root, "root", "/var/lib/garrison", "the `DIRECTORY` of everything that it keeps", config.Text)
	switch args[0] {
	case "join":
		f.joinFlags("the invitation, which everybody on this machine can see while this runs; - reads it from the standard input", fromWordOrInput)
		return f.then(args, func() error {
			if f.invitation.given == "" {
				return config.Missing(f.FlagSet, "token-file")
			}
			return f.join(ctx, os.Stdout, "")
		})
	case "run":
		f.joinFlags("the invitation, which everybody on this machine can see while this runs", fromWord)
		f.runFlags()
		return f.then(args, func() error { return f.run(ctx) })
	case "rehearse":
		config.Checked(f.FlagSet, &f.journal, "journal", "", "a copy of the journal, a `FILE`", config.File)
		f.busFlags("info", "as it was joined")
		return f.then(args, func() error {
			if f.journal == "" {
				return config.Missing(f.FlagSet, "journal")
			}
			return f.rehearse(ctx, os.Stdout)
		})
	case "uninstall":
		dryRun := f.Bool("dry-run", false, "print the decision, every fact that it is made from, and every path that would go; change nothing")
		f.busFlags("warn", "as it was joined")
		f.cleanFlags()
		return f.then(args, func() error {
			switch {
			case f.clean.tombstone != "":
				return f.cleanUp(ctx, *dryRun, os.Stdin, os.Stdout)
			case f.output == "json":
				return config.Missing(f.FlagSet, "tombstone")
			}
			return f.uninstall(ctx, *dryRun)
		})
	case "status":
		config.Checked(f.FlagSet, &f.output, "o", "text", "text or json", config.OneOf("text", "json"))
		return f.then(args, func() error { return f.status(os.Stdout) })
	case "health":
		return f.then(args, f.health)
	case "version", "--version":
		return f.then(args, func() error { _, err := fmt.Println(version.Version); return err })
	case "help", "-h", "--help":
		return f.then(args, func() error { _, err := fmt.Print(usage); return err })
	}
	fmt.Fprintf(os.Stderr, "executor: no command %q\n%s", args[0], usage)
	return config.ErrUsage
}

func (f *flags) busFlags(level, elsewhere string) {
	config.Checked(f.FlagSet, &f.url, "bus", "", "where the bus is, a `URL`; without it "+elsewhere, config.BusURL)
	config.Checked(f.FlagSet, &f.level, "log-level", level, "debug, info, warn or error", config.Level)
}

func (f *flags) joinFlags(usage string, open func(string) (func() (io.ReadCloser, error), error)) {
	f.Var(invitationFlag{&f.invitation, "token-file", fromFile}, "token-file", "the `FILE` with the invitation that garrison server enroll NAME wrote")
	f.Var(invitationFlag{&f.invitation, "token", open}, "token", usage)
	f.Var(&f.imageKeys, "image-key", "public `KEY` of which an image must be signed by one; may be repeated; without it those that the registry tells at the join")
	f.busFlags("info", "as the token says")
}

// shortestBeat is how often an executor may say that it lives.
const shortestBeat = 10 * time.Millisecond

func (f *flags) runFlags() {
	config.Checked(f.FlagSet, &f.supervisor, "supervisor", executor.SupervisorAuto, "what runs the agents: systemd, direct (the executor itself), or auto, which is systemd where it runs the server",
		config.OneOf(executor.SupervisorAuto, executor.SupervisorSystemd, executor.SupervisorDirect))
	f.BoolVar(&f.stopAgents, "stop-agents", false, "end the agents with the executor")
	config.Checked(f.FlagSet, &f.keep.Versions, "keep-versions", executor.DefaultKeep.Versions, "how many replaced versions of each agent stay on the disk", config.From(0))
	config.Checked(f.FlagSet, &f.keep.Bytes, "keep-bytes", executor.DefaultKeep.Bytes, "how many bytes replaced versions may take, all agents together", config.From[uint64](0))
	config.Checked(f.FlagSet, &f.beat, "beat-interval", executor.DefaultBeatInterval, "how often it says that it lives", config.Lasting(shortestBeat))
}

func (f *flags) then(args []string, do func() error) error {
	if err := config.Parse(f.FlagSet, args[1:], os.Getenv, os.Stderr); err != nil {
		return err
	}
	return do()
}

func (f *flags) logger() (zerolog.Logger, error) { return logs.New(os.Stderr, "executor", f.level) }

// join joins with the token that was given; unless server is empty, as that one only.
func (f *flags) join(ctx context.Context, out io.Writer, server string) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	token, err := f.invitation.token(ctx)
	if fault.Is(err, fault.Invalid) { // what was given is no token, as a flag's value may be none
		fmt.Fprintf(f.Output(), "%s: --%s: %v\n", f.Name(), f.invitation.given, err)
		return config.ErrUsage
	}
	if err != nil {
		return fmt.Errorf("read the invitation: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	id, err := executor.Join(ctx, executor.Invitation{Root: f.root, Token: token, Server: server, URL: f.url, ImageKeys: f.imageKeys, Log: log})
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
	c := executor.Config{
		Root: f.root, URL: f.url, StopAgents: f.stopAgents, Supervisor: f.supervisor, BeatInterval: f.beat, Keep: &f.keep,
		Args: os.Args, Log: log,
	}
	if c.Comes = f.invitation.given != ""; c.Comes {
		err := f.join(ctx, io.Discard, "")
		switch {
		case err == nil, errors.Is(err, executor.ErrDamaged):
		case ctx.Err() != nil || fault.Is(err, fault.Conflict) || !executor.Ran(f.root):
			return err
		default: // there may be agents, and they must not end with this process
			log.Error().Err(err).Msg("not joined; what is there is kept")
		}
		c.Join = func(ctx context.Context, server string) error { return f.join(ctx, io.Discard, server) }
	}
	err = executor.New(c).Run(ctx)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("%w; join first: executor join --token-file FILE --root %s", err, f.root)
	}
	return err
}

func (f *flags) rehearse(ctx context.Context, out io.Writer) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	r, err := executor.Rehearse(ctx, executor.Config{Root: f.root, URL: f.url, Log: log}, f.journal)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func (f *flags) uninstall(ctx context.Context, dryRun bool) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	return executor.Uninstall(ctx, executor.Config{Root: f.root, URL: f.url, Log: log}, dryRun, os.Stdout)
}

func (f *flags) health() error {
	s, err := executor.ReadStatus(f.root)
	if err != nil {
		return err
	}
	return s.Fresh(time.Now())
}

func (f *flags) status(out io.Writer) error {
	s, err := executor.ReadStatus(f.root)
	if err != nil {
		return err
	}
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(s.AsOf(time.Now()))
	}
	return s.Print(out, time.Now())
}
