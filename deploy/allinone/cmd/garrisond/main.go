// Command garrisond is a whole Garrison in one process, with its data in one directory.
//
//	garrisond --data DIR                      runs it
//	garrisond keys --data DIR --url URL       makes keys, credentials and a nats-server configuration, for services in processes of their own
//	garrisond provision --data DIR --url URL  declares the streams on a bus that runs elsewhere
//	                                          (--dry-run prints what would change)
//	garrisond health --url URL                exits 0 when a bus listens there
//
// A bus whose disk was full takes no more writes, also when there is room again; garrisond
// then starts anew by itself, in the same process.
//
// Exit codes: 0 stopped when told to, 1 error, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/registry"
	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

func main() {
	ctx, cancel := lifecycle.Signals()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

type flags struct {
	data, listen, level, url string
	services                 serviceList
	replicas                 int
	lazy, showVersion        bool
	dryRun, acceptLedger     bool
	imageKeys                seal.Keys
	tuning                   allinone.Tuning
}

// serviceList is the services that one process has.
type serviceList []string

// String gives them as they are given.
func (s serviceList) String() string { return strings.Join(s, ",") }

func parseServices(text string) (serviceList, error) { return allinone.ParseServices(text) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, args, err := config.Command("garrisond", args, stderr, "run", "keys", "provision", "health")
	if err != nil {
		return config.ExitCode(err)
	}
	var f flags
	fs := flag.NewFlagSet("garrisond", flag.ContinueOnError)
	config.Checked(fs, &f.data, "data", "", "the `DIRECTORY` that keeps everything; made if it is not there", config.Text)
	fs.BoolVar(&f.showVersion, "version", false, "print the version and stop")
	switch command {
	case "run":
		config.Checked(fs, &f.listen, "listen", "127.0.0.1:0", "`ADDRESS` where servers and operators connect; port 0 means a free one, chosen once and kept", config.Address)
		config.Checked(fs, &f.services, "services", serviceList(topology.Services), "the services in this process: all, none (only the bus), or a comma-separated `LIST`", parseServices)
		config.Checked(fs, &f.level, "log-level", "info", "debug, info, warn or error", config.Level)
		fs.BoolVar(&f.lazy, "allow-lazy-sync", false, "do not sync each write to disk: a power cut may lose acknowledged facts; for trying it out")
		fs.BoolVar(&f.acceptLedger, "accept-ledger", false, process.AcceptLedgerUsage)
		fs.Var(&f.imageKeys, "image-key", "public `KEY` of which an image must be signed by one, here and on servers that join; may be repeated; without it none need be signed")
		config.Checked(fs, &f.tuning.Concurrency, "concurrency", dispatcher.DefaultConcurrency, "how many tasks may be under way at once", config.From(1))
		config.Checked(fs, &f.tuning.BeatInterval, "beat-interval", registry.DefaultBeatInterval, "how often servers are expected to beat", config.Lasting(time.Millisecond))
		config.Checked(fs, &f.tuning.TaskDeadline, "task-deadline", dispatcher.DefaultTaskDeadline, "how long a task may take once it is assigned", config.Lasting(time.Millisecond))
	default:
		config.Checked(fs, &f.url, "url", "", "the `URL` of the bus, such as nats://bus:4222", config.BusURL)
		config.Checked(fs, &f.replicas, "replicas", 1, "how many servers of the bus keep each stream", config.From(1))
		fs.BoolVar(&f.lazy, "allow-lazy-sync", false, "take a bus that does not sync each write to disk")
		if command == "provision" {
			fs.BoolVar(&f.dryRun, "dry-run", false, "print what would change on the bus, and change nothing")
		}
	}
	if err := config.Parse(fs, args, os.Getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, "garrisond", version.Version)
		return 0
	}
	if err := f.complete(fs, command); err != nil {
		return config.ExitCode(err)
	}
	if err := dispatch(ctx, command, f, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "garrisond:", err)
		return 1
	}
	return 0
}

// complete refuses a command without what it needs.
func (f *flags) complete(fs *flag.FlagSet, command string) (err error) {
	if command != "health" && f.data == "" {
		return config.Missing(fs, "data")
	}
	if command != "run" && f.url == "" {
		return config.Missing(fs, "url")
	}
	f.data, err = filepath.Abs(f.data) // what is printed can be used from anywhere
	return err
}

func dispatch(ctx context.Context, command string, f flags, stdout, stderr io.Writer) error {
	switch command {
	case "health":
		return allinone.Health(ctx, f.url)
	case "keys":
		return allinone.WriteKeys(f.data, f.url)
	case "provision":
		return allinone.Provision(ctx, allinone.Provisioning{
			Data: f.data, URL: f.url, Replicas: f.replicas, Lazy: f.lazy, DryRun: f.dryRun, Log: stdout,
		})
	}
	log, err := logs.New(stderr, "", f.level)
	if err != nil {
		return err
	}
	debug.SetGCPercent(200)
	c := allinone.Config{
		Data: f.data, Listen: f.listen, Services: f.services, Lazy: f.lazy, AcceptLedger: f.acceptLedger,
		ImageKeys: f.imageKeys, Log: log, Tuning: f.tuning,
	}
	for {
		begun := time.Now()
		err := serve(ctx, c, stdout)
		if !errors.Is(err, allinone.ErrStore) || time.Since(begun) < againAfter {
			return err
		}
		log.Warn().Err(err).Msg("starting anew")
	}
}

// againAfter is how long it must have run to be started anew; a disk that fails sooner needs a person.
const againAfter = 10 * time.Second

// serve runs one Garrison until it ends.
func serve(ctx context.Context, c allinone.Config, stdout io.Writer) error {
	g, err := allinone.Start(ctx, c)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(ctx)
	said := make(chan struct{})
	go func() {
		defer close(said)
		if g.WaitReady(ctx) == nil { // what is typed next is answered
			fmt.Fprintf(stdout, "garrisond %s listens at %s\nTalk to it with: export GARRISON_CONTEXT=%s\n",
				version.Version, g.URL(), g.ContextFile())
		}
	}()
	defer func() { cancel(); <-said }()
	return g.Run(ctx)
}
