// Command self is an executor for tests. What is special about it stands in trait.json
// beside the program, so that one build makes every version: good ones and broken ones.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// trait is what is special about a version. The roles are rehearse, trial and run.
type trait struct {
	Version string
	Crash   string // the role in which it ends at once
	Late    bool   // it ends a while after it took everything over, in the role run
	Hang    string // the role in which it does nothing
	NoBus   string // the role in which it has no credentials
	NoRead  bool   // it cannot read the journal's file
}

func main() {
	executor.Shim(os.Args)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		os.Exit(1)
	}
}

func run() error {
	t, role, err := look()
	if err != nil {
		return err
	}
	version.Version = t.Version
	switch role {
	case t.Crash:
		return fmt.Errorf("version %s cannot go on", t.Version)
	case t.Hang:
		time.Sleep(time.Hour)
	}
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	root, url, copied := f.String("root", "", ""), f.String("bus", "", ""), f.String("journal", "", "")
	beat, stopAgents := f.Duration("beat-interval", 50*time.Millisecond, ""), f.Bool("stop-agents", false, "")
	if err := f.Parse(os.Args[2:]); err != nil {
		return err
	}
	cfg := executor.Config{
		Root: *root, URL: *url, BeatInterval: *beat, StopAgents: *stopAgents, Args: os.Args,
		FailPoint: t.failPoint(role, *root),
		Log: zerolog.New(os.Stderr).
			With().
			Timestamp().
			Str("version", t.Version).
			Str("role", role).
			Int("pid", os.Getpid()).
			Logger(),
	}
	if role == t.NoBus {
		cfg.Anonymous = &executor.Server{Cell: os.Getenv("SELF_TEST_CELL"), Server: os.Getenv("SELF_TEST_SERVER")}
	}
	ctx, stop := rungroup.Signals()
	defer stop()
	if role == "rehearse" {
		return t.rehearse(ctx, cfg, *copied)
	}
	return executor.New(cfg).Run(ctx)
}

func look() (t trait, role string, err error) {
	own, err := os.Executable()
	if err != nil {
		return t, "", err
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(own), "trait.json"))
	if err != nil {
		return t, "", err
	}
	role = os.Args[1]
	if os.Getenv("GARRISON_TRIAL") != "" {
		role = "trial"
	}
	return t, role, json.Unmarshal(data, &t)
}

func (t trait) rehearse(ctx context.Context, cfg executor.Config, copied string) error {
	if t.NoRead {
		if err := os.WriteFile(copied, []byte(strings.Repeat("another format", 10_000)), 0o600); err != nil {
			return err
		}
	}
	r, err := executor.Rehearse(ctx, cfg, copied)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// failPoint writes down each point that is passed, and kills this process at the one that
// SELF_TEST_KILL names together with its role. At the one that SELF_TEST_CUT names it cuts
// the power of the root's disk before it does so.
func (t trait) failPoint(role, root string) func(string) {
	trace, killAt, cutAt := os.Getenv("SELF_TEST_TRACE"), os.Getenv("SELF_TEST_KILL"), os.Getenv("SELF_TEST_CUT")
	return func(point string) {
		passed := role + ": " + point
		if passed == cutAt {
			if err := powercut.Shut(root); err != nil {
				panic(err)
			}
		}
		if trace != "" {
			if f, err := os.OpenFile(trace, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				fmt.Fprintln(f, passed)
				_ = f.Close()
			}
		}
		if passed == killAt || passed == cutAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if t.Late && role == "run" && (point == "recovered" || point == "ended") {
			time.AfterFunc(100*time.Millisecond, func() { os.Exit(7) })
		}
	}
}
