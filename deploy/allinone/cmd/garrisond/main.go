// Command garrisond is a whole Garrison in one process, with its data in one directory.
//
//	garrisond --data DIR                      runs it
//	garrisond keys --data DIR --url URL       makes keys, credentials and a nats-server configuration, for services in processes of their own
//	garrisond provision --data DIR --url URL  declares the streams on a bus that runs elsewhere
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
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/version"
)

func main() {
	ctx, cancel := lifecycle.Signals()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

type flags struct {
	data, listen, services, level, url string
	run                                []string // services, parsed
	replicas                           int
	lazy, showVersion                  bool
	tuning                             allinone.Tuning
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := "run"
	if len(args) > 0 && slices.Contains([]string{"run", "keys", "provision", "health"}, args[0]) {
		command, args = args[0], args[1:]
	}
	var f flags
	fs := flag.NewFlagSet("garrisond", flag.ContinueOnError)
	fs.StringVar(&f.data, "data", "", "data `DIRECTORY`; made if it is not there")
	fs.BoolVar(&f.showVersion, "version", false, "print the version and stop")
	switch command {
	case "run":
		fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "`ADDRESS` where servers and operators connect; port 0 means a free one, chosen once and kept")
		fs.StringVar(&f.services, "services", "all", "the services in this process: all, none (only the bus), or a comma-separated `LIST`")
		fs.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
		fs.BoolVar(&f.lazy, "allow-lazy-sync", false, "do not sync each write to disk: a power cut may lose acknowledged facts; for trying it out")
		fs.IntVar(&f.tuning.Concurrency, "concurrency", 0, "how many tasks may be under way at once; 0 means 20")
		fs.DurationVar(&f.tuning.BeatInterval, "beat-interval", 0, "how often servers are expected to beat; 0 means 5s")
		fs.DurationVar(&f.tuning.TaskDeadline, "task-deadline", 0, "how long a task may take once it is assigned; 0 means 10m")
	default:
		fs.StringVar(&f.url, "url", "", "`URL` of the bus")
		fs.IntVar(&f.replicas, "replicas", 1, "how many servers of the bus keep each stream")
		fs.BoolVar(&f.lazy, "allow-lazy-sync", false, "take a bus that does not sync each write to disk")
	}
	if err := config.Parse(fs, args, os.Getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, "garrisond", version.Version)
		return 0
	}
	if err := f.check(command); err != nil {
		fmt.Fprintln(stderr, "garrisond:", err)
		return 2
	}
	if err := dispatch(ctx, command, f, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "garrisond:", err)
		return 1
	}
	return 0
}

// check refuses flags that cannot be meant.
func (f *flags) check(command string) (err error) {
	if command != "health" && f.data == "" {
		return errors.New("--data is missing: name the directory that keeps everything")
	}
	if command == "run" {
		if f.run, err = allinone.ParseServices(f.services); err != nil {
			return fmt.Errorf("--services: %w", err)
		}
	} else if f.url == "" {
		return errors.New("--url is missing: say where the bus is")
	}
	if f.tuning.Concurrency < 0 || f.tuning.BeatInterval < 0 || f.tuning.TaskDeadline < 0 || f.replicas < 0 {
		return errors.New("a number or duration below 0 means nothing; 0 means the default")
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
		return allinone.Provision(ctx, allinone.Provisioning{Data: f.data, URL: f.url, Replicas: f.replicas, Lazy: f.lazy})
	}
	log, err := logs.New(stderr, "", f.level)
	if err != nil {
		return err
	}
	debug.SetGCPercent(200)
	c := allinone.Config{Data: f.data, Listen: f.listen, Services: f.run, Lazy: f.lazy, Log: log, Tuning: f.tuning}
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
	fmt.Fprintf(stdout, "garrisond %s listens at %s\nTalk to it with: export GARRISON_CONTEXT=%s\n", version.Version, g.URL(), g.ContextFile())
	return g.Run(ctx)
}
