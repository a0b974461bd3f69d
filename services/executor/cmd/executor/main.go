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
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/completion"
	"github.com/garrison-fleet/garrison/pkg/config"
	pkgdebug "github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/internal/enrol"
	"github.com/garrison-fleet/garrison/services/executor/internal/hangup"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// command is one subcommand.
type command struct {
	name  string // one word, or two
	usage string
	flags func(*flags) // those of its own, or nil
	run   func(*flags, context.Context) error
}

const runInSection = "busy run"

// commands are all subcommands, in the order of the help.
var commands = []command{
	{
		"join", "join with an invitation: executor join --token-file FILE --root DIR", (*flags).joinOnly,
		(*flags).joinAlone,
	},
	{"run", "do what the server's document says, until stopped", (*flags).runOnly, (*flags).start},
	{"status", "print what the executor under a root last reported; needs no bus", (*flags).format, (*flags).status},
	{"health", "exit with 0 when the executor under a root runs and is not suspended", nil, (*flags).health},
	{
		"uninstall", "remove the executor when its server is dead and was enrolled manually; --dry-run prints the\n" +
			"decision; --tombstone FILE is for a server whose executor no longer runs",
		(*flags).uninstallOnly, (*flags).remove,
	},
	{
		"journal show", "print the records of the journal as JSON lines; refused while an executor runs",
		(*flags).journalOnly, (*flags).showJournal,
	},
	{
		"reset-generation", "forget which document was taken last, so that the next one is taken; for a server that\n" +
			"took a forged document; refused while an executor runs or a change is open",
		nil, (*flags).resetGeneration,
	},
	{
		runInSection, "run a command as a critical section: executor busy run --for 10m -- COMMAND;\n" +
			"changes of the server wait until it has ended",
		(*flags).busyBegin, (*flags).runBusy,
	},
	{
		"busy begin", "begin a critical section; changes of the server wait for its end", (*flags).busyBegin,
		(*flags).beginBusy,
	},
	{"busy end", "end a critical section", (*flags).busyNamed, (*flags).endBusy},
	{"busy list", "print the critical sections that last", (*flags).format, (*flags).listBusy},
	{
		"rehearse", "check that this program can take over from the executor under a root: it reads a copy of its\n" +
			"journal, logs in to the bus and reads the document; an executor runs this on its successor",
		(*flags).rehearseOnly, (*flags).rehearse,
	},
	{
		"completion", "print the completion script of bash, zsh or fish: source <(executor completion bash)", nil,
		(*flags).wantsShell,
	},
	{"version", "print the version", nil, func(*flags, context.Context) error {
		_, err := fmt.Fprintln(stdout(), version.Full())
		return err
	}},
}

// usage returns the help of the program.
func usage() string {
	var b strings.Builder
	b.WriteString("usage: executor COMMAND [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-16s %s\n", c.name, strings.ReplaceAll(c.usage, "\n", "\n                   "))
	}
	b.WriteString("\nThe environment can set every flag: GARRISON_ROOT for --root, and so on.\n")
	return b.String()
}

// joinWithin bounds a join; a restarted container joins again.
const joinWithin = 30 * time.Second

func main() {
	executor.Shim(os.Args)
	inherit.Process()
	// An idle executor is on every server, so memory matters more than speed.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(48 << 20)
	ctx, stop := rungroup.Signals()
	hangup.Handle(stop)
	err := execute(ctx, os.Args[1:])
	stop()
	if errors.Is(err, config.ErrUsage) {
		os.Exit(config.ExitCode(err))
	}
	if err != nil {
		fmt.Fprintln(stderr(), line(err))
		os.Exit(1)
	}
}

// line returns an error in one line, for a person.
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
	journal, debugSocket     string
	metricsSocket            string
	stopAgents, dryRun       bool
	secrets                  bool
	allowPlain, lobby        bool
	busCA                    string
	invitation               invitation
	beat, check              time.Duration
	keep                     executor.Keep
	imageKeys                seal.Keys
	clean                    cleanFlags
	busy                     busyFlags
}

// execute runs the command that args name.
func execute(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(stderr(), usage())
		return config.ErrUsage
	}
	switch args[0] {
	case "help", "-h", "--help":
		args[0] = "help"
		return parse(newFlags("help"), args[1:], func() error { _, err := fmt.Fprint(stdout(), usage()); return err })
	case completion.Ask:
		completed().Print(os.Stdout, args[1:])
		return nil
	case "completion":
		if len(args) == 2 && !strings.HasPrefix(args[1], "-") {
			return printScript(args[1])
		}
	case "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	for _, c := range commands {
		words := strings.Fields(c.name)
		if len(args) < len(words) || !slices.Equal(args[:len(words)], words) {
			continue
		}
		f := newFlags(c.name)
		if c.flags != nil {
			c.flags(f)
		}
		return parse(f, f.splitCommand(c.name, args[len(words):]), func() error { return c.run(f, ctx) })
	}
	fmt.Fprintf(stderr(), "executor: unknown command %q\n%s", args[0], usage())
	return config.ErrUsage
}

func newFlags(command string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet("executor "+command, flag.ContinueOnError)}
	config.Checked(f.FlagSet, &f.root, "root", "/var/lib/garrison", "the data `DIRECTORY` of the executor",
		config.Text)
	return f
}

func parse(f *flags, args []string, run func() error) error {
	if tokenOn(args) {
		fmt.Fprintf(stderr(), "%s: --token would show the invitation to every user of this machine; "+
			"pass --token-file FILE, or join with --token - on the standard input, or set GARRISON_TOKEN\n", f.Name())
		return config.ErrUsage
	}
	if err := config.Parse(f.FlagSet, args, os.Getenv, stderr()); err != nil {
		return err
	}
	return run()
}

func (f *flags) joinOnly() {
	f.joinFlags(
		"- reads the invitation from the standard input; GARRISON_TOKEN may hold it, and the command line may not",
		fromWordOrInput,
	)
}

func (f *flags) joinAlone(ctx context.Context) error {
	if err := f.checkLobby(); err != nil {
		return err
	}
	if f.invitation.given == "" && !f.lobby {
		return config.Missing(f.FlagSet, "token-file")
	}
	return f.join(ctx, stdout(), "")
}

func (f *flags) runOnly() {
	f.joinFlags("refused here: other users of this machine could see it; GARRISON_TOKEN may hold the invitation",
		fromWord)
	f.runFlags()
}

func (f *flags) rehearseOnly() {
	config.Checked(f.FlagSet, &f.journal, "journal", "", "a copy of the journal, a `FILE`", config.File)
	f.busFlags("info", "the one of the join")
}

func (f *flags) uninstallOnly() {
	f.BoolVar(&f.dryRun, "dry-run", false,
		"print the decision, every fact behind it, and every path that would be removed; change nothing")
	f.busFlags("warn", "the one of the join")
	f.cleanFlags()
}

func (f *flags) remove(ctx context.Context) error {
	switch {
	case f.clean.tombstone != "":
		return f.cleanUp(ctx, f.dryRun, os.Stdin, stdout())
	case f.output == "json":
		return config.Missing(f.FlagSet, "tombstone")
	}
	return f.uninstall(ctx, f.dryRun)
}

func (f *flags) format() {
	config.Checked(f.FlagSet, &f.output, "o", "text", "text or json", config.OneOf("text", "json"))
}

func (f *flags) busFlags(level, elsewhere string) {
	config.Checked(f.FlagSet, &f.url, "bus", "", "`URL` of the bus; default: "+elsewhere, config.BusURL)
	config.Checked(f.FlagSet, &f.level, "log-level", level, "debug, info, warn or error", config.Level)
	f.BoolVar(&f.allowPlain, "allow-plain", false,
		"connect to a bus on another host without TLS: anybody on the way can read and change what runs here")
}

func (f *flags) joinFlags(usage string, open func(string) (func() (io.ReadCloser, error), error)) {
	f.Var(invitationFlag{&f.invitation, "token-file", fromFile}, "token-file",
		"the `FILE` with the invitation that garrison server enroll NAME wrote")
	f.Var(invitationFlag{&f.invitation, "token", open}, "token", usage)
	f.Var(
		&f.imageKeys,
		"image-key",
		"accept only images signed by one of these public `KEY`s (repeatable; default: those that the registry sends "+
			"at the join)",
	)
	f.lobbyFlags()
	f.busFlags("info", "the one in the token")
}

// shortestCheck is the shortest time between two checks of the agents.
const shortestCheck = 100 * time.Millisecond

// contentRounds is how many checks of the agents a round takes that reads the content of their images.
const contentRounds = 3

// shortestBeat is the shortest time between two beats.
const shortestBeat = 10 * time.Millisecond

func (f *flags) runFlags() {
	config.Checked(
		f.FlagSet,
		&f.supervisor,
		"supervisor",
		executor.SupervisorAuto,
		"what runs the agents: systemd, direct (the executor itself), or auto (systemd where it runs the server)",
		config.OneOf(executor.SupervisorAuto, executor.SupervisorSystemd, executor.SupervisorDirect),
	)
	f.BoolVar(&f.stopAgents, "stop-agents", false, "stop the agents with the executor")
	config.Checked(f.FlagSet, &f.keep.Versions, "keep-versions", executor.DefaultKeep.Versions,
		"replaced versions of each agent that stay on the disk", config.From(0))
	config.Checked(f.FlagSet, &f.keep.Bytes, "keep-bytes", executor.DefaultKeep.Bytes,
		"bytes that the replaced versions of all agents may use", config.From[uint64](0))
	config.Checked(f.FlagSet, &f.beat, "beat-interval", executor.DefaultBeatInterval, "time between two beats",
		config.Lasting(shortestBeat))
	config.Checked(f.FlagSet, &f.check, "check-interval", executor.DefaultCheckEvery,
		"time between two checks of the agents' files, processes and health", config.Lasting(shortestCheck))
	f.StringVar(&f.debugSocket, "debug-socket", "", pkgdebug.Usage)
	f.StringVar(&f.metricsSocket, "metrics-socket", "", "serve /metrics, /healthz and /readyz on a unix "+
		"`SOCKET` that only this user can open; without it nothing listens")
}

func (f *flags) logger() (zerolog.Logger, error) { return logs.New(os.Stderr, "executor", f.level) }

// join joins with the given token; unless server is empty, as that server only.
func (f *flags) join(ctx context.Context, out io.Writer, server string) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	if f.lobby {
		return f.knock(ctx, out, log)
	}
	token, err := f.invitation.token(ctx)
	if fault.Is(err, fault.Invalid) { // an invalid token is a usage error
		fmt.Fprintf(f.Output(), "%s: --%s: %v\n", f.Name(), f.invitation.given, err)
		return config.ErrUsage
	}
	if err != nil {
		return fmt.Errorf("read the invitation: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	id, err := enrol.Join(ctx,
		enrol.Invitation{Root: f.root, Token: token, Server: server, URL: f.url, AllowPlain: f.allowPlain,
			ImageKeys: f.imageKeys, Log: log})
	if err != nil {
		return err
	}
	if s, e := status.Read(f.root); e == nil && s.State == status.Decommissioned && s.ServerID == id {
		fmt.Fprintf(out, "server %s was decommissioned; its token is used up\n", id)
		return nil
	}
	fmt.Fprintf(out, "joined as server %s\n", id)
	return nil
}

func (f *flags) start(ctx context.Context) error {
	log, err := f.logger()
	if err == nil {
		err = f.checkLobby()
	}
	if err != nil {
		return err
	}
	c := executor.Config{
		Root: f.root, URL: f.url, AllowPlain: f.allowPlain, StopAgents: f.stopAgents, Supervisor: f.supervisor,
		BeatInterval: f.beat, CheckEvery: f.check, ContentEvery: contentRounds * f.check, Keep: &f.keep,
		Args: os.Args, DebugSocket: f.debugSocket, MetricsSocket: f.metricsSocket, Log: log,
	}
	if c.Rejoins = f.invitation.given != "" || f.lobby; c.Rejoins {
		err := f.join(ctx, io.Discard, "")
		switch {
		case err == nil, errors.Is(err, identity.ErrDamaged):
		case ctx.Err() != nil || fault.Is(err, fault.Conflict) || !enrol.Ran(f.root):
			return err
		default: // there may be agents, which must not end with this process
			log.Error().Err(err).Msg("not joined; the agents are kept")
		}
		c.Join = func(ctx context.Context, server string) error { return f.join(ctx, io.Discard, server) }
	}
	err = executor.New(c).Run(ctx)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("%w; join first: executor join --token-file FILE --root %s", err, f.root)
	}
	return err
}

func (f *flags) rehearse(ctx context.Context) error {
	if f.journal == "" {
		return config.Missing(f.FlagSet, "journal")
	}
	log, err := f.logger()
	if err != nil {
		return err
	}
	c := executor.Config{Root: f.root, URL: f.url, AllowPlain: f.allowPlain, Log: log}
	r, err := executor.Rehearse(ctx, c, f.journal)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout()).Encode(r)
}

func (f *flags) uninstall(ctx context.Context, dryRun bool) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	return executor.Remove(ctx, executor.Config{Root: f.root, URL: f.url, AllowPlain: f.allowPlain, Log: log},
		executor.Removal{DryRun: dryRun, Out: stdout()})
}
