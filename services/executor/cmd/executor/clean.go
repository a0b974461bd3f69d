package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/executor"
)

// maxTombstone limits the size of a tombstone.
const maxTombstone = 64 << 10

// cleanFlags are those of an uninstall with a tombstone.
type cleanFlags struct {
	tombstone string
	within    time.Duration
}

func (f *flags) cleanFlags() {
	config.Checked(f.FlagSet, &f.clean.tombstone, "tombstone", "",
		"remove the agents and the executor without a bus, while no executor runs; `FILE` with the tombstone that "+
			"garrison server clean NAME --tombstone prints, or - for the standard input", fileOrInput)
	config.Checked(f.FlagSet, &f.clean.within, "within", executor.RemovalWithin,
		"with --tombstone: limit for the removal of the agents", config.Lasting(time.Second))
	config.Checked(f.FlagSet, &f.output, "o", "text", "with --tombstone: text or json", config.OneOf("text", "json"))
}

// fileOrInput reads the name of a file, or - for the standard input.
func fileOrInput(s string) (string, error) {
	if s == "-" {
		return s, nil
	}
	return config.File(s)
}

// cleanUp removes agents and executor with a tombstone, and prints the outcome.
func (f *flags) cleanUp(ctx context.Context, dryRun bool, in io.Reader, out io.Writer) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.clean.within)
	defer cancel()
	reported := false
	report := func(o *reportv1.CleanUpOutcome) error { reported = true; return f.printOutcome(out, o) }
	tombstone, err := f.readTombstone(ctx, in)
	if err == nil {
		err = executor.Remove(ctx, executor.Config{Root: f.root, Log: log},
			executor.Removal{Tombstone: tombstone, DryRun: dryRun, Report: report})
	}
	if r := fault.RefusalOf(err); r != nil && !reported {
		return errors.Join(err, report(&reportv1.CleanUpOutcome{Refusal: r, DryRun: dryRun}))
	}
	return err
}

// readTombstone reads the tombstone. It returns at the end of ctx, also while nothing arrives.
func (f *flags) readTombstone(ctx context.Context, in io.Reader) (*serverv1.Tombstone, error) {
	data, err := readWithin(ctx, func() ([]byte, error) { return f.readFile(in) })
	if err != nil {
		return nil, invalidTombstone(err)
	}
	return parseTombstone(data)
}

// readWithin returns what read returns, or the error of ctx when that ends first.
func readWithin[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// readFile reads the file of the flag, or in.
func (f *flags) readFile(in io.Reader) ([]byte, error) {
	if f.clean.tombstone == "-" {
		return io.ReadAll(io.LimitReader(in, maxTombstone))
	}
	file, err := regular.Open(f.clean.tombstone)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	return io.ReadAll(io.LimitReader(file, maxTombstone))
}

func parseTombstone(data []byte) (*serverv1.Tombstone, error) {
	t := &serverv1.Tombstone{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, t); err != nil {
		return nil, invalidTombstone(err)
	}
	if t.GetServerId() == "" || len(t.GetSignature()) == 0 {
		return nil, invalidTombstone(errors.New("no server or no signature"))
	}
	return t, nil
}

func invalidTombstone(err error) error {
	return fault.Refusef(fault.Invalid, code.BadTombstone, "read the tombstone: %v", err).
		Try("garrison server clean NAME --tombstone").From("executor")
}

// printOutcome prints the outcome, for a program or a person; people see a refusal as any error.
func (f *flags) printOutcome(out io.Writer, o *reportv1.CleanUpOutcome) error {
	if f.output == "json" {
		data, err := protojson.Marshal(o)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", data)
		}
		return err
	}
	action := "removed"
	if o.GetDryRun() {
		action = "is removed"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range o.GetPaths() {
		what := action
		if p.GetLeftBecause() != "" {
			what = "stays: " + p.GetLeftBecause()
		}
		fmt.Fprintf(w, "%s\t%s\n", p.GetPath(), what)
	}
	return w.Flush()
}
