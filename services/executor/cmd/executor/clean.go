package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor"
)

// maxTombstone is how long a tombstone may be.
const maxTombstone = 64 << 10

// cleanFlags are those of an uninstall with a tombstone.
type cleanFlags struct {
	tombstone string
	within    time.Duration
}

func (f *flags) cleanFlags() {
	config.Checked(f.FlagSet, &f.clean.tombstone, "tombstone", "", "the tombstone of this server, as garrison server tombstone NAME prints it, a `FILE`, or - for the standard input: without a bus and without an executor that runs, its agents are removed and then everything else", fileOrInput)
	config.Checked(f.FlagSet, &f.clean.within, "within", executor.CleanUpWithin, "with --tombstone: how long the agents may take to go", config.Lasting(time.Second))
	config.Checked(f.FlagSet, &f.output, "o", "text", "with --tombstone: text or json", config.OneOf("text", "json"))
}

// fileOrInput reads the name of a file, or - for the standard input.
func fileOrInput(s string) (string, error) {
	if s == "-" {
		return s, nil
	}
	return config.File(s)
}

// cleanUp uninstalls with a tombstone, and prints how that ended.
func (f *flags) cleanUp(ctx context.Context, dryRun bool, in io.Reader, out io.Writer) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.clean.within)
	defer cancel()
	told := false
	tell := func(o *reportv1.CleanUpOutcome) error { told = true; return f.printOutcome(out, o) }
	tombstone, err := f.readTombstone(ctx, in)
	if err == nil {
		err = executor.Clean(ctx, executor.Config{Root: f.root, Log: log}, executor.CleanUp{Tombstone: tombstone, DryRun: dryRun, Tell: tell})
	}
	if r := fault.RefusalOf(err); r != nil && !told {
		return errors.Join(err, tell(&reportv1.CleanUpOutcome{Refusal: r, DryRun: dryRun}))
	}
	return err
}

// readTombstone reads the tombstone. It ends with ctx although nothing comes.
func (f *flags) readTombstone(ctx context.Context, in io.Reader) (*serverv1.Tombstone, error) {
	type got struct {
		data []byte
		err  error
	}
	done := make(chan got, 1)
	go func() {
		data, err := f.readFile(in)
		done <- got{data, err}
	}()
	select {
	case g := <-done:
		if g.err != nil {
			return nil, unreadable(g.err)
		}
		return parseTombstone(g.data)
	case <-ctx.Done():
		return nil, unreadable(ctx.Err())
	}
}

// readFile reads what the flag names, or in.
func (f *flags) readFile(in io.Reader) ([]byte, error) {
	if f.clean.tombstone == "-" {
		return io.ReadAll(io.LimitReader(in, maxTombstone))
	}
	file, err := os.Open(f.clean.tombstone)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, maxTombstone))
}

func parseTombstone(data []byte) (*serverv1.Tombstone, error) {
	t := &serverv1.Tombstone{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, t); err != nil {
		return nil, unreadable(err)
	}
	if t.GetServerId() == "" || len(t.GetSignature()) == 0 {
		return nil, unreadable(errors.New("it has no server or no signature"))
	}
	return t, nil
}

func unreadable(err error) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Component: "executor", Code: "TOMBSTONE_INVALID", Message: "read the tombstone: " + err.Error(), Try: "garrison server tombstone NAME",
	})
}

// printOutcome prints how it ended, for a program or a person; a refusal is said to people as any error is.
func (f *flags) printOutcome(out io.Writer, o *reportv1.CleanUpOutcome) error {
	if f.output == "json" {
		data, err := protojson.Marshal(o)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", data)
		}
		return err
	}
	goes := "removed"
	if o.GetDryRun() {
		goes = "goes"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range o.GetPaths() {
		what := goes
		if p.GetLeftBecause() != "" {
			what = "stays: " + p.GetLeftBecause()
		}
		fmt.Fprintf(w, "%s\t%s\n", p.GetPath(), what)
	}
	return w.Flush()
}
