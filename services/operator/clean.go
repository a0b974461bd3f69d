package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// outcome is how a clean-up ended.
type outcome = *reportv1.CleanUpOutcome

var cleanListing = listing[*reportv1.Removed]{
	name: func(r *reportv1.Removed) string { return r.GetPath() },
	columns: []column[*reportv1.Removed]{
		{title: "PATH", value: func(_ view, r *reportv1.Removed) string { return r.GetPath() }},
		{title: "STAYS", value: func(_ view, r *reportv1.Removed) string { return r.GetLeftBecause() }},
	},
}

// cleanFlags say how a dead server's machine is cleaned.
type cleanFlags struct {
	machine
	work    workFlags
	receipt string
	timeout time.Duration
}

const cleanLong = `Remove what is left on the machine of a dead server whose executor is gone: its agents, which may still run, and then
everything else that is Garrison's there. The machine's own executor program does it, over ssh, without the bus. It
decides as an executor does that removes itself: a person must have made the machine, and the registry's proof that this
very server is dead, which this sends along, must hold; otherwise nothing is removed. Needs root there, or --sudo. How it
ended is recorded, also when it failed; a try that was cut off may be made again. The check of the host's key is ssh's.`

func (s *session) cleanCommand() *cobra.Command {
	f := &cleanFlags{}
	c := &cobra.Command{
		Use: "clean SERVER", Short: "Remove what is left on a dead server's machine, over ssh, when its executor cannot", Long: cleanLong, Args: exactly("SERVER"),
		Example: "  garrison server clean web-1 --ssh root@web-1 --dry-run\n" +
			"  garrison server clean web-1 --ssh ann@10.0.0.7 --sudo --ssh-command 'ssh -p 2222 -i key'\n" +
			"  garrison server clean web-1 --ssh root@web-1 --upload bin/executor     # where the program is gone too\n\n" +
			"  garrison server tombstone web-1 > dead                                 # without ssh; there:\n" +
			"  executor uninstall --tombstone dead -o json > receipt                  # and here again:\n" +
			"  garrison server clean web-1 --receipt receipt",
		RunE: func(c *cobra.Command, a []string) error {
			if (f.to == "") == (f.receipt == "") {
				return usage("%s wants either --ssh or --receipt. Try: %s --help", c.CommandPath(), c.CommandPath())
			}
			return s.clean(c.Context(), f, a[0])
		},
	}
	textVar(c.Flags(), &f.to, "ssh", aLogin, "where to log in, as ssh understands it: `USER@HOST`")
	f.ssh = "ssh"
	textVar(c.Flags(), &f.ssh, "ssh-command", said("command"), "the `COMMAND` that logs in, with its options, as in \"ssh -p 2222 -i KEY\"; split at spaces")
	f.root = "/var/lib/garrison"
	textVar(c.Flags(), &f.root, "root", said("directory"), "the `DIRECTORY` there that the executor was joined with")
	f.program = "executor"
	textVar(c.Flags(), &f.program, "executor", said("program"), "the executor's `PROGRAM` there")
	textVar(c.Flags(), &f.upload, "upload", said("file"), "send this executor program, a `FILE` here, to a temporary place there, and remove it after")
	c.Flags().BoolVar(&f.sudo, "sudo", false, "run it there with sudo, which must not ask")
	textVar(c.Flags(), &f.receipt, "receipt", said("file"), "only record what executor uninstall --tombstone -o json printed there: a `FILE`, or - for the standard input")
	timeVar(c.Flags(), &f.timeout, "timeout", 5*time.Minute, time.Hour, "how long it may take; the agents may take three quarters of it to go")
	c.Flags().BoolVar(&f.work.dryRun, "dry-run", false, "show what would be removed there; change and record nothing")
	f.work.addYes(c)
	return c
}

func (s *session) tombstoneCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tombstone SERVER", Short: "Print the registry's signed proof that a server is dead, for executor uninstall --tombstone", Args: exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := s.deadServer(c.Context(), a[0])
			if err != nil {
				return err
			}
			format := formatJSON
			if s.output.format == formatYAML {
				format = formatYAML
			}
			return printDocument(s.out, format, found.GetTombstone())
		},
	}
}

// deadServer finds a server that is dead and can be proven to be.
func (s *session) deadServer(ctx context.Context, name string) (server, error) {
	found, err := s.getServer(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case found.GetLife() != serverv1.Life_LIFE_DEAD:
		return nil, refuse(fault.Conflict, &apiv1.Refusal{
			Code: "NOT_DEAD", Message: fmt.Sprintf("server %s (%s) is %s, so nothing is to be cleaned up there", found.GetName(), found.GetId(), word(found.GetLife())),
			Try: "garrison server decommission " + found.GetName() + "; when its executor is gone for good, with --lost",
		})
	case found.GetTombstone() == nil:
		return nil, refuse(fault.NotFound, &apiv1.Refusal{
			Code: "NOT_PROVEN", Message: fmt.Sprintf("server %s (%s) died without a tombstone: its registry had no key to sign one", found.GetName(), found.GetId()),
			Try: "remove what is left there by hand, then garrison server forget " + found.GetName(),
		})
	}
	return found, nil
}

// clean has a dead server's machine cleaned, or takes the receipt of that, and records how it ended.
func (s *session) clean(ctx context.Context, f *cleanFlags, name string) error {
	found, err := s.deadServer(ctx, name)
	if err != nil {
		return err
	}
	if f.receipt != "" && f.work.dryRun {
		return usage("--receipt records what was done already; there is nothing to try dry")
	}
	if f.receipt != "" {
		o, err := s.readReceipt(f.receipt)
		if err != nil {
			return err
		}
		return s.conclude(ctx, found, "by hand", o)
	}
	if !f.work.dryRun {
		s.say("server %s (%s): what is left of it below %s at %s goes, agents first", found.GetName(), found.GetId(), f.root, f.to)
		if err := s.confirm(ctx, f.work, "Clean "+f.to+"?"); err != nil {
			return err
		}
	}
	o, err := s.runThere(ctx, f, found)
	if err != nil {
		return err
	}
	return s.conclude(ctx, found, "ssh "+f.to, o)
}

// conclude records how a clean-up ended, and prints it. What cannot be recorded is printed
// so that it can be kept.
func (s *session) conclude(ctx context.Context, found server, via string, o outcome) error {
	if !o.GetDryRun() {
		q := &registryv1.RecordCleanUpRequest{Server: found.GetId(), Via: via, Outcome: o}
		if _, err := call[*registryv1.RecordCleanUpResponse](ctx, s, "RecordCleanUp", q); err != nil {
			s.say("the clean-up ended, and that is not recorded; keep what is printed here, then: garrison server clean %s --receipt FILE", found.GetName())
			return firstError(printDocument(s.out, formatJSON, o), err)
		}
	}
	if len(o.GetPaths()) > 0 || !s.output.isTable() {
		if err := show(s, cleanListing, o, o.GetPaths()); err != nil {
			return err
		}
	}
	switch r := o.GetRefusal(); {
	case r != nil:
		return refuse(fault.Unavailable, r)
	case o.GetDryRun():
		s.say("%s of %s would go, %d stay", plural(int(o.GetRemoved()), "path"), found.GetName(), o.GetLeft())
	default:
		s.say("the machine of %s is clean: %s went, %d stay. To forget it: garrison server forget %s", found.GetName(), plural(int(o.GetRemoved()), "path"), o.GetLeft(), found.GetId())
	}
	return nil
}

// maxReceipt is how long a receipt may be.
const maxReceipt = 16 << 20

func (s *session) readReceipt(file string) (outcome, error) {
	in := s.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // it was only read
		in = opened
	}
	data, err := io.ReadAll(io.LimitReader(in, maxReceipt))
	if err != nil {
		return nil, fmt.Errorf("read the receipt: %w", err)
	}
	o, err := parseOutcome(data)
	if err != nil {
		return nil, refuse(fault.Invalid, &apiv1.Refusal{
			Code: "BAD_CLEAN_UP", Message: "what is given as a receipt is none: " + err.Error(), Try: "executor uninstall --tombstone FILE -o json, there",
		})
	}
	return o, nil
}

func parseOutcome(data []byte) (outcome, error) {
	o := &reportv1.CleanUpOutcome{}
	return o, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, o)
}

// cleanedText says who last tried to clean a server's machine, how, and what came of it.
func cleanedText(s server) string {
	c := s.GetCleanUp()
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s by %s", stamp(c.GetAt()), c.GetActor(), c.GetVia())
	if strings.HasPrefix(c.GetVia(), "by ") {
		text = fmt.Sprintf("%s, %s %s", stamp(c.GetAt()), c.GetActor(), c.GetVia())
	}
	if c.GetCode() != "" {
		text += ", failed: " + c.GetCode() + ": " + c.GetReason()
	}
	return text
}

// serverReason returns why a server is as it is. One that is leaked says why, and why the last
// clean-up failed.
func serverReason(s server) string {
	switch c := s.GetCleanUp(); {
	case leaked(s) && c.GetCode() != "":
		return "clean-up failed: " + c.GetCode() + ": " + c.GetReason() + "; " + leakText(s)
	case leaked(s):
		return leakText(s)
	}
	for _, d := range s.GetDuties() {
		if d.GetKind() == serverv1.DutyKind_DUTY_KIND_DEATH && d.GetReason() != "" {
			return "its end is not recorded: " + d.GetReason()
		}
	}
	if line := troubleLine(s); line != "" {
		return line
	}
	return s.GetReason()
}
