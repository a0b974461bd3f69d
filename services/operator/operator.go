// Package operator is the operator's command line, the binary garrison. It talks to the bus only: it calls services,
// publishes intents, and reads the ledger.
//
// Guarantees:
//
//  1. Data is printed to standard output, messages to standard error. Without a terminal there is no prompt, no colour
//     and no redrawn line.
//  2. The exit code tells the outcome; garrison help exit-codes lists the codes.
//  3. A refusal by a service is printed as one line, as the service wrote it, and a line for each of several faults.
//     A line that begins with "garrison: " is the command line's own. With -o json, faults are printed as data too.
//  4. JSON keys are the keys of the protos, in lower camel case.
//  5. An intent is published under a new id that is its message id too, so that a retry stores it once.
//  6. Leaving the view, by Ctrl-C or by a time-out, never stops the work.
//  7. Every wait has a bound: a call 5 s, an intent's decision 30 s, a view its --timeout.
//
// The packages below internal lie in layers. Package output prints data and package display describes the nouns; both
// are pure. Package cli is the environment of a command. Packages fleet, selector, work and watch are shared by several
// nouns. Each noun has a package of its own, and the verbs install, up, configure, remove and undo are in package
// change. To add a verb, follow docs/add-a-verb.md.
package operator

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/operator/internal/advisory"
	"github.com/garrison-fleet/garrison/services/operator/internal/agent"
	"github.com/garrison-fleet/garrison/services/operator/internal/agentlog"
	"github.com/garrison-fleet/garrison/services/operator/internal/app"
	"github.com/garrison-fleet/garrison/services/operator/internal/apply"
	"github.com/garrison-fleet/garrison/services/operator/internal/block"
	"github.com/garrison-fleet/garrison/services/operator/internal/bus"
	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/channel"
	"github.com/garrison-fleet/garrison/services/operator/internal/check"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/complete"
	"github.com/garrison-fleet/garrison/services/operator/internal/console"
	"github.com/garrison-fleet/garrison/services/operator/internal/contexts"
	"github.com/garrison-fleet/garrison/services/operator/internal/debug"
	environment "github.com/garrison-fleet/garrison/services/operator/internal/env"
	"github.com/garrison-fleet/garrison/services/operator/internal/events"
	"github.com/garrison-fleet/garrison/services/operator/internal/explain"
	"github.com/garrison-fleet/garrison/services/operator/internal/export"
	"github.com/garrison-fleet/garrison/services/operator/internal/exposed"
	"github.com/garrison-fleet/garrison/services/operator/internal/hold"
	"github.com/garrison-fleet/garrison/services/operator/internal/image"
	"github.com/garrison-fleet/garrison/services/operator/internal/importer"
	"github.com/garrison-fleet/garrison/services/operator/internal/instance"
	"github.com/garrison-fleet/garrison/services/operator/internal/intent"
	"github.com/garrison-fleet/garrison/services/operator/internal/labelrule"
	"github.com/garrison-fleet/garrison/services/operator/internal/restore"
	"github.com/garrison-fleet/garrison/services/operator/internal/rollout"
	"github.com/garrison-fleet/garrison/services/operator/internal/server"
	"github.com/garrison-fleet/garrison/services/operator/internal/source"
	"github.com/garrison-fleet/garrison/services/operator/internal/status"
	"github.com/garrison-fleet/garrison/services/operator/internal/task"
	"github.com/garrison-fleet/garrison/services/operator/internal/token"
	"github.com/garrison-fleet/garrison/services/operator/internal/user"
	"github.com/garrison-fleet/garrison/services/operator/internal/versions"
	"github.com/garrison-fleet/garrison/services/operator/internal/wait"
)

// Exec runs one command line, without the program's name, and returns its exit code.
func Exec(
	ctx context.Context,
	args []string,
	stdin io.Reader,
	stdout, stderr io.Writer,
	getenv func(string) string,
) int {
	return run(ctx, cli.NewEnv(stdin, stdout, stderr, getenv), args)
}

// run runs one command line and prints the reason of a failure.
func run(ctx context.Context, env *cli.Env, args []string) int {
	defer env.Close()
	root := newRoot(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, client.ErrDryRun) {
		cli.SayDry(env, err)
		return cli.ExitOK
	}
	if err == nil {
		return cli.ExitOK
	}
	if !env.Began && cli.CodeOf(err) == cli.ExitError {
		err = cli.Usage("%v", err) // cobra refused the command line
	}
	if e, ok := err.(cli.Exit); !ok || !e.Quiet {
		env.Say("%s", cli.LineOf(err))
		cli.PrintFaults(env, err)
	}
	return cli.CodeOf(err)
}

// newRoot returns the tree of commands.
func newRoot(env *cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "garrison",
		Short:         "Install, upgrade, watch and remove agents on a fleet of servers.",
		Version:       version.Full(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // RefuseUnknown refuses them and names the nearest
		RunE:          cli.RefuseUnknown,
		PersistentPreRunE: func(c *cobra.Command, a []string) error {
			if err := cli.TakeFile(env, c); err != nil {
				return err
			}
			if err := env.Output.CheckFilter(); err != nil {
				return cli.Usage("%v", err)
			}
			env.Began, env.Output.Context = true, c.Context()
			env.PaintTables()
			env.Heed(c, a)
			return nil
		},
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(cli.FlagError)
	cli.TextVar(root.PersistentFlags(), &env.ContextName, "context", cli.NotEmpty("context"),
		"context `FILE` or saved name (default: GARRISON_CONTEXT, else the selected context)")
	cli.OutputFlags(env.Output, root.PersistentFlags())
	cli.ColorFlag(env, root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: dayID, Title: "Daily commands:"}, &cobra.Group{ID: "verb", Title: "More verbs:"},
		&cobra.Group{ID: "noun", Title: "Nouns:"}, &cobra.Group{ID: "self", Title: "Garrison itself:"},
		&cobra.Group{ID: topicID, Title: "Topics of garrison help:"})
	addCommands(env, root)
	addChanges(root)
	complete.Add(env, root)
	addTopics(root)
	fitHelp(env, root)
	root.SetHelpCommandGroupID("self")
	root.CompletionOptions.DisableDefaultCmd = true
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, a []string) error {
			found, rest, err := root.Find(a)
			if err == nil && found.HasSubCommands() && len(rest) > 0 { // an unknown topic
				return cli.RefuseUnknown(found, rest)
			}
			return err
		}
	}
	return root
}

// The groups of commands that more than the list of all shows.
const (
	dayID   = "day"
	topicID = "topic"
)

// addTopics adds what garrison help prints besides commands.
func addTopics(root *cobra.Command) {
	for _, c := range []*cobra.Command{
		{Use: allTopic, Short: "List every command."},
		{Use: flagsTopic, Short: "List the flags of every command."},
		{Use: "exit-codes", Short: "List the exit codes.", Long: cli.ExitCodesText},
		{Use: "selectors", Short: "How servers are selected with --on.", Long: cli.SelectorsText},
		{Use: "image-references", Short: "How images are named, as in AGENT@VERSION.", Long: cli.ImagesText},
	} {
		c.GroupID = topicID
		root.AddCommand(c)
	}
}

// addCommands adds the commands, in groups.
func addCommands(env *cli.Env, root *cobra.Command) {
	verbs := []*cobra.Command{
		change.InstallCommand(env, rollout.Batches(env)),
		change.UpCommand(env, rollout.Batches(env)),
		change.ConfigureCommand(env, rollout.Batches(env)),
		change.RestartCommand(env, rollout.Batches(env)),
		change.RemoveCommand(env),
		change.UndoCommand(env, rollout.Batches(env)),
		status.Command(env),
		console.Command(env),
		wait.Command(env),
		wait.CancelCommand(env),
		block.Command(env),
		block.UnblockCommand(env),
		hold.Command(env),
		hold.UnholdCommand(env),
		check.Command(env),
		exposed.Command(env),
		apply.Command(env),
		export.Command(env),
		importer.Commands(env),
		events.Command(env),
		agentlog.Command(env),
		versions.Command(env),
	}
	nouns := []*cobra.Command{
		server.Commands(env), instance.Commands(env), agent.Commands(env), app.Commands(env), environment.Commands(env),
		image.Commands(env), channel.Commands(env), task.Commands(env), intent.Commands(env), rollout.Commands(env),
		restore.Commands(env),
		user.Commands(env), token.Commands(env),
		labelrule.Commands(env), source.Commands(env), advisory.Commands(env),
	}
	self := []*cobra.Command{
		contexts.Commands(env), contexts.WhoamiCommand(env), bus.Command(env),
		explain.Command(env), debug.Command(env), manCommand(env), completionCommand(env),
	}
	for id, commands := range map[string][]*cobra.Command{"verb": verbs, "noun": nouns, "self": self} {
		for _, c := range commands {
			c.GroupID = id
			if slices.Contains(daily, c.Name()) {
				c.GroupID = dayID
			}
			watchLists(env, c)
			root.AddCommand(c)
		}
	}
}

// reads are the commands that change nothing on the control plane, by their paths or, for verbs of many nouns, by their
// last word. Every other command has --yes and --dry-run.
var reads = map[string]bool{
	"list": true, "show": true, "status": true, "watch": true, "env diff": true, "channel diff": true,
	"export": true, "events": true, "logs": true, "versions": true, "whoami": true, "explain": true, "debug": true,
	"man": true, "completion": true,
	"bus": true, "restore": true, "context token": true, "console": true,
	"rollout plan": true, "exposed": true,
	// These change files of the caller only.
	"context add": true, "context use": true, "context rm": true, "image build": true, "image export": true,
	"image key": true, "image sign": true, "image verify": true, "source publish": true,
}

// destroying are the last words of commands that destroy what they name.
var destroying = []string{"delete", "unset", "remove", "revoke"}

// addChanges adds the flags of changes to every command that is not in reads.
func addChanges(c *cobra.Command) {
	for _, sub := range c.Commands() {
		addChanges(sub)
	}
	path := strings.TrimPrefix(c.CommandPath(), "garrison ")
	group := c.HasSubCommands() && c.Args == nil
	if c.HasParent() && !group && !reads[path] && !reads[c.Name()] {
		cli.Changes(c, slices.Contains(destroying, c.Name()))
	}
}

// watchLists adds --watch to garrison status and to every list below a command.
func watchLists(env *cli.Env, c *cobra.Command) {
	if c.Name() == "list" || c.Name() == "status" && c.Parent() == nil {
		cli.Watchable(env, c)
	}
	for _, sub := range c.Commands() {
		watchLists(env, sub)
	}
}
