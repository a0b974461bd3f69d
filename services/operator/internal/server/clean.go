package server

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/ssh"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

var cleanListing = listing.Listing[*reportv1.Removed]{
	Name: func(r *reportv1.Removed) string { return r.GetPath() },
	Columns: []listing.Column[*reportv1.Removed]{
		listing.Col("PATH", (*reportv1.Removed).GetPath),
		listing.Col("STAYS", (*reportv1.Removed).GetLeftBecause),
	},
}

// cleanFlags select how a dead server's machine is cleaned.
type cleanFlags struct {
	on        selector.Flags
	host      ssh.Host
	work      work.Flags
	receipt   string
	tombstone bool // print it and do nothing
	timeout   time.Duration
}

const cleanLong = `Remove what is left of Garrison on the machine of a dead server whose executor is gone: first its
agents, which may still run, then all other files. The machine's own executor program does it, over ssh and without the
bus. It decides by the rules of an executor that removes itself: the machine must have been enrolled by an operator, and
the signed proof that this server is dead, which is sent along, must be valid; otherwise nothing is removed. It requires
root on the machine, or --sudo. The outcome is recorded, also after a failure; an interrupted run can be repeated. ssh
checks the host's key.

Several servers, and the servers of --on, are cleaned four at a time: the leaked ones, whose machine may still
have something of Garrison. In --ssh, {name}, {hostname} and {address} then stand for each server's own. ssh must not
ask for a password.`

func cleanCommand(env *cli.Env) *cobra.Command {
	f := &cleanFlags{}
	c := &cobra.Command{
		Use:   "clean [SERVER]…",
		Short: "Remove what is left of Garrison on a dead server's machine, over ssh.",
		Long:  cleanLong,
		Args:  func(_ *cobra.Command, a []string) error { return oneOrMany(&f.on)(a) },
		Example: "  garrison server clean web-1 --ssh root@web-1 --dry-run\n" +
			"  garrison server clean --on rack=a1 --ssh 'root@{hostname}' --ssh-command 'ssh -o BatchMode=yes'\n" +
			"  garrison server clean web-1 --ssh ann@10.0.0.7 --sudo --ssh-command 'ssh -p 2222 -i key'\n" +
			"  garrison server clean web-1 --ssh root@web-1 --upload bin/executor   # the program is gone too\n\n" +
			"  garrison server clean web-1 --tombstone > dead         # without ssh; there:\n" +
			"  executor uninstall --tombstone dead -o json > receipt  # and here again:\n" +
			"  garrison server clean web-1 --receipt receipt",
		RunE: func(c *cobra.Command, a []string) error {
			ways := 0
			for _, way := range []string{"ssh", "receipt", "tombstone"} {
				if c.Flags().Changed(way) {
					ways++
				}
			}
			switch {
			case ways != 1:
				return cli.Usage("%s requires exactly one of --ssh, --receipt and --tombstone. Try: %s "+
					"--help", c.CommandPath(), c.CommandPath())
			case f.tombstone && len(a) != 1:
				return cli.Usage("--tombstone is for one SERVER. Try: garrison server list --life dead")
			case f.tombstone:
				return printTombstone(c.Context(), env, a[0])
			}
			if len(a) != 1 {
				return cleanMany(c.Context(), env, f, a)
			}
			return clean(c.Context(), env, f, a[0])
		},
	}
	f.on.Add(c)
	cli.TextVar(c.Flags(), &f.host.To, "ssh", ssh.CheckLogin, "log in at `USER@HOST`, as ssh accepts it; of several "+
		"servers such as root@{hostname}")
	f.host.Command = "ssh"
	cli.TextVar(c.Flags(), &f.host.Command, "ssh-command", cli.NotEmpty("command"),
		"the login `COMMAND` with its options, as in \"ssh -p 2222 -i KEY\"; split at spaces")
	f.host.Root = "/var/lib/garrison"
	cli.TextVar(c.Flags(), &f.host.Root, "root", cli.NotEmpty("directory"), "the root `DIRECTORY` of the executor "+
		"on the machine")
	f.host.Program = "executor"
	cli.TextVar(c.Flags(), &f.host.Program, "executor", cli.NotEmpty("program"),
		"the executor `PROGRAM` on the machine")
	cli.TextVar(c.Flags(), &f.host.Upload, "upload", cli.NotEmpty("file"),
		"upload this executor program, a local `FILE`, to a temporary directory and remove it afterwards")
	c.Flags().BoolVar(&f.host.Sudo, "sudo", false, "run the program with sudo, which must not prompt")
	cli.TextVar(c.Flags(), &f.receipt, "receipt", cli.NotEmpty("file"),
		"only record the output of executor uninstall --tombstone -o json, from a `FILE`, or - for standard input")
	c.Flags().BoolVar(&f.tombstone, "tombstone", false, "only print the signed proof that the server is dead, for "+
		"executor uninstall --tombstone FILE there")
	cli.TimeVar(c.Flags(), &f.timeout, "timeout", 5*time.Minute, time.Hour,
		"time limit, a `DURATION`; three quarters of it are for stopping agents")
	c.Flags().BoolVar(&f.work.DryRun, "dry-run", false, "show what would be removed; change and record nothing")
	f.work.AddYes(c)
	return c
}

// printTombstone prints the signed proof that a server is dead.
func printTombstone(ctx context.Context, env *cli.Env, name string) error {
	found, err := deadServer(ctx, env, name)
	if err != nil {
		return err
	}
	format := output.FormatJSON
	if env.Output.Format == output.FormatYAML {
		format = output.FormatYAML
	}
	return env.Output.PrintDocument(format, found.GetTombstone())
}

// deadServer returns a dead server that has a tombstone.
func deadServer(ctx context.Context, env *cli.Env, name string) (display.Server, error) {
	found, err := fleet.Server(ctx, env, name)
	switch {
	case err != nil:
		return nil, err
	case found.GetLife() != serverv1.Life_LIFE_DEAD:
		return nil, cli.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: code.NotDead,
			Message: fmt.Sprintf("server %s (%s) is %s; only a dead server can be cleaned "+
				"up", found.GetName(), found.GetId(), listing.Word(found.GetLife())),
			Try: "garrison server decommission " + found.GetName() + "; if its executor is lost, with --lost",
		})
	case found.GetTombstone() == nil:
		return nil, cli.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: code.NotProven,
			Message: fmt.Sprintf("server %s (%s) died without a tombstone: its registry had no key to sign "+
				"one", found.GetName(), found.GetId()),
			Try: "remove what is left by hand, then garrison server forget " + found.GetName(),
		})
	}
	return found, nil
}

// clean cleans a dead server's machine, or reads the receipt of a clean-up, and records the outcome.
func clean(ctx context.Context, env *cli.Env, f *cleanFlags, name string) error {
	found, err := deadServer(ctx, env, name)
	if err != nil {
		return err
	}
	if f.receipt != "" && f.work.DryRun {
		return cli.Usage("--receipt records a finished clean-up and cannot be combined with --dry-run")
	}
	if f.receipt != "" {
		o, err := readReceipt(env, f.receipt)
		if err != nil {
			return err
		}
		return conclude(ctx, env, found, "by hand", o)
	}
	if !f.work.DryRun {
		env.Say("server %s (%s): everything left below %s at %s will be removed, agents "+
			"first", found.GetName(), found.GetId(),
			f.host.Root, f.host.To)
		if err := env.Confirm(ctx, f.work.Yes, "Clean "+f.host.To+"?"); err != nil {
			return err
		}
	}
	o, err := f.host.Clean(ctx, ssh.CleanUp{
		Tombstone: found.GetTombstone(), Timeout: f.timeout, DryRun: f.work.DryRun, Now: env.Now, Say: env.Say,
	})
	if err != nil {
		return err
	}
	return conclude(ctx, env, found, "ssh "+f.host.To, o)
}

// conclude records the outcome of a clean-up and prints it. An outcome that cannot be recorded is printed as a receipt.
func conclude(ctx context.Context, env *cli.Env, found display.Server, via string, o ssh.Outcome) error {
	if !o.GetDryRun() {
		q := &registryv1.RecordCleanUpRequest{Server: found.GetId(), Via: via, Outcome: o}
		if _, err := cli.Call[*registryv1.RecordCleanUpResponse](ctx, env, q); err != nil {
			env.Say(
				"the clean-up ended but was not recorded; save the output as a receipt, then: garrison server "+
					"clean %s --receipt FILE",
				found.GetName(),
			)
			return cli.FirstError(env.Output.PrintDocument(output.FormatJSON, o), err)
		}
	}
	if len(o.GetPaths()) > 0 || !env.Output.IsTable() {
		if err := output.Show(env.Output, cleanListing, o, o.GetPaths()); err != nil {
			return err
		}
	}
	switch r := o.GetRefusal(); {
	case r != nil:
		return cli.Refuse(fault.Unavailable, r)
	case o.GetDryRun():
		env.Say("%s of %s would be removed, %d left", listing.Plural(int(o.GetRemoved()), "path"), found.GetName(),
			o.GetLeft())
	default:
		env.Say("the machine of %s is clean: %s removed, %d left. To forget the server: garrison server forget "+
			"%s", found.GetName(),
			listing.Plural(int(o.GetRemoved()), "path"), o.GetLeft(), found.GetId())
	}
	return nil
}

func readReceipt(env *cli.Env, file string) (ssh.Outcome, error) {
	data, err := env.ReadInput(file, ssh.MaxReceipt)
	if err != nil {
		return nil, fmt.Errorf("read the receipt: %w", err)
	}
	o, err := ssh.ParseOutcome(data)
	if err != nil {
		return nil, cli.Refuse(fault.Invalid, &apiv1.Refusal{
			Code:    code.Invalid,
			Message: "not a receipt: " + err.Error(),
			Try:     "executor uninstall --tombstone FILE -o json, on the machine",
		})
	}
	return o, nil
}
