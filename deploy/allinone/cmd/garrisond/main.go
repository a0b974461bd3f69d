// Command garrisond runs a whole Garrison in one process, with its data in one directory.
//
//	garrisond --data DIR                      runs it
//	garrisond keys --data DIR --url URL       creates keys, credentials, and the accounts and the certificate of a
//	                                          nats-server, for services in processes of their own; run again, it
//	                                          renews the certificate (--hand-out DIR writes a directory for each
//	                                          part, with the files that it needs)
//	garrisond provision --data DIR --url URL  declares the streams on a bus that runs elsewhere
//	                                          (--dry-run prints what would change)
//	garrisond grow --data DIR --url URL --to URLS
//	                                          moves the streams of a bus of one server to a cluster
//	                                          (--dry-run prints what would be moved)
//	garrisond backup FILE --data DIR          writes a backup of a Garrison that runs (--without-keys)
//	garrisond restore FILE --data DIR         makes a data directory of a backup
//	garrisond export-keys FILE --data DIR     writes the keys into a file, for the other members of a cluster
//	garrisond import-keys FILE --data DIR     makes a data directory with the keys of that file
//	garrisond rehearse --data DIR             shows whether this version can take over from the one that runs, and
//	                                          makes its views ready; takes the flags that garrisond runs with
//	garrisond upgrade --data DIR              restarts its unit with the program that is installed, and goes back to
//	                                          the one before unless that serves (--plan, --show, --back, --finish)
//	garrisond webhooks --data DIR --webhooks FILE
//	                                          checks and lists webhooks (--test, --dead, --resend ROUTE,
//	                                          --rotate-key)
//	garrisond health --url URL                exits with 0 when a bus listens there
//	garrisond health --data DIR               exits with 0 when the garrisond of DIR serves clients
//	garrisond completion SHELL                prints the completion script of bash, zsh or fish
//	garrisond help [COMMAND]                  prints them, or the flags of one
//
// A bus whose disk was full refuses writes, also when there is space again; garrisond then
// restarts it, in the same process.
//
// Exit codes: 0 stopped by a signal, 1 error, 2 usage.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/completion"
	"github.com/garrison-fleet/garrison/pkg/config"
	pkgdebug "github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/visible"

	"github.com/garrison-fleet/garrison/services/gateway"
	"github.com/garrison-fleet/garrison/services/registry"
	dispatcher "github.com/garrison-fleet/garrison/services/task-dispatcher"
)

func main() {
	ctx, cancel := rungroup.Signals()
	code := run(ctx, os.Args[1:], visible.Writer(os.Stdout), visible.Writer(os.Stderr))
	cancel()
	os.Exit(code)
}

type flags struct {
	data, listen, level, url string
	debugSocket, metrics, to string
	services                 serviceList
	cluster                  allinone.Members
	replicas, memoryLimit    int
	audit                    auditFlags
	lazy, showVersion, lobby bool
	dryRun, acceptLedger     bool
	imageKeys                seal.Keys
	advertise, changeCA      string
	handOut, file, keys      string
	present                  string
	withoutKeys              bool
	tls                      allinone.TLS
	http                     allinone.HTTP
	tuning                   allinone.Tuning
	upgrade                  upgradeFlags
	hooks                    gateway.WebhookCommand
}

// serviceList lists the services of one process.
type serviceList []string

// String returns the list as the flag takes it.
func (s serviceList) String() string { return strings.Join(s, ",") }

func parseServices(text string) (serviceList, error) { return allinone.ParseServices(text) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if asksForHelp(args) {
		fmt.Fprint(stdout, usage())
		return 0
	}
	if len(args) == 2 && args[0] == "help" {
		args = []string{args[1], "--help"}
	}
	if len(args) > 0 && (args[0] == completion.Ask || args[0] == "completion") {
		return complete(args, stdout, stderr)
	}
	command, args, err := config.Command("garrisond", args, stderr, commandNames()...)
	if err != nil {
		return config.ExitCode(err)
	}
	var f flags
	fs := flag.NewFlagSet("garrisond "+command, flag.ContinueOnError)
	if takesFile(command) && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		f.file, args = args[0], args[1:]
	}
	f.define(fs, command)
	if err := config.Parse(fs, args, os.Getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, "garrisond", version.Full())
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

// define defines the flags of a command.
func (f *flags) define(fs *flag.FlagSet, command string) {
	config.Checked(fs, &f.data, "data", "", "the data `DIRECTORY`; run and keys create it if it is missing",
		config.Text)
	fs.BoolVar(&f.showVersion, "version", false, "print the version and exit")
	switch command {
	case "run":
		f.defineRun(fs)
	case "rehearse":
		f.defineRun(fs)
		config.Checked(fs, &f.url, "url", "", "the `URL` of the bus; default: the garrisond of --data", config.BusURL)
	case "health":
		config.Checked(fs, &f.url, "url", "", "the `URL` of a bus, instead of --data", config.BusURL)
	case "backup":
		config.Checked(fs, &f.url, "url", "", "the `URL` of the bus; default: the garrisond of --data", config.BusURL)
		fs.BoolVar(&f.withoutKeys, "without-keys", false, "leave out keys and credentials, which are kept elsewhere")
		fs.BoolVar(&f.tls.AllowPlain, "allow-plain", false, process.AllowPlainUsage)
	case "upgrade":
		f.upgrade.define(fs)
	case "webhooks":
		f.webhooksFile(fs)
		f.hooks.Define(fs)
	case "export-keys", "import-keys":
	case "restore":
		config.Checked(fs, &f.keys, "keys", "", "the data `DIRECTORY` with the keys of a backup without keys",
			config.Text)
		config.Checked(fs, &f.present, "present", "", "the data `DIRECTORY` until now; what its bus refuses stays "+
			"refused (default: that of --keys)", config.Text)
	default:
		config.Checked(fs, &f.url, "url", "", "the `URL` of the bus, such as tls://bus:4222", config.BusURL)
		replicas := 1
		if command == "grow" {
			replicas = 3
			config.Checked(fs, &f.to, "to", "", "the `URLS` of the servers of the cluster, with commas", config.BusURL)
			fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be moved, and change nothing on either bus")
		}
		config.Checked(fs, &f.replicas, "replicas", replicas, "how many servers of the bus keep each stream",
			config.From(1))
		fs.BoolVar(&f.lazy, "allow-lazy-sync", false, "accept a bus that does not sync each write to disk")
		f.otherTLS(fs, command)
		if command == "provision" {
			fs.BoolVar(&f.dryRun, "dry-run", false, "print what would change on the bus, and change nothing")
			f.audit.define(fs)
		}
	}
}

// defineRun defines the flags of run.
func (f *flags) defineRun(fs *flag.FlagSet) {
	config.Checked(fs, &f.listen, "listen", "127.0.0.1:0",
		"`ADDRESS` where servers and operators connect; port 0 means a free port, chosen once and kept",
		config.Address)
	f.ownTLS(fs)
	f.ownHTTP(fs)
	config.Checked(fs, &f.cluster, "cluster", nil, "`HOST,HOST,HOST` of the three garrisonds of a cluster, of which "+
		"this one is one, by its --listen or --advertise; each with :PORT where the members reach it (6222)",
		allinone.ParseMembers)
	config.Checked(fs, &f.services, "services", serviceList(topology.Services),
		"the services in this process: all, none (only the bus), or a comma-separated `LIST`", parseServices)
	config.Checked(fs, &f.level, "log-level", "info", "debug, info, warn or error", config.Level)
	fs.BoolVar(&f.lazy, "allow-lazy-sync", false,
		"do not sync each write to disk: a power cut may lose acknowledged facts; for trying it out")
	config.Checked(fs, &f.memoryLimit, "memory-limit", 0, "how many `MIB` of memory to stay below; 0 means half "+
		"of the memory of the machine or its container", config.From(0))
	f.audit.define(fs)
	fs.BoolVar(&f.lobby, "lobby", false, "let machines without a token ask to join: each waits until an operator "+
		"accepts it, see garrison server accept --help")
	fs.StringVar(&f.debugSocket, "debug-socket", "", pkgdebug.Usage)
	config.Checked(fs, &f.metrics, "metrics", "", metrics.Usage, metrics.Address)
	fs.BoolVar(&f.acceptLedger, "accept-ledger", false, process.AcceptLedgerUsage)
	fs.Var(
		&f.imageKeys,
		"image-key",
		"public `KEY` that must have signed each image, here and on servers that join; repeatable: one of the "+
			"keys is enough; without it images need no signature",
	)
	config.Checked(fs, &f.tuning.Concurrency, "concurrency", dispatcher.DefaultConcurrency,
		"maximum number of concurrent tasks", config.From(1))
	config.Checked(fs, &f.tuning.BeatInterval, "beat-interval", registry.DefaultBeatInterval,
		"interval between two beats of a server", config.Lasting(time.Millisecond))
	f.budgets(fs)
	config.Checked(fs, &f.tuning.BlockAfter, "block-after", registry.DefaultBlockAfter,
		"on how many `SERVERS` an image or a configuration fails before it is blocked on all others; 0 means never",
		config.From(0))
	config.Checked(fs, &f.tuning.ServerCredentials, "server-credentials", registry.DefaultServerCredentials,
		"how long the credentials of a server are valid; it renews them after half of that",
		config.Lasting(time.Minute))
	config.Checked(fs, &f.tuning.TaskDeadline, "task-deadline", dispatcher.DefaultTaskDeadline,
		"how long a task may be under way, until the fleet showed how long its kind takes",
		config.Lasting(time.Millisecond))
	config.Checked(fs, &f.tuning.LeastDeadline, "task-deadline-least", dispatcher.DefaultLeastDeadline,
		"how long at least once it did; at most --task-deadline", config.Lasting(time.Millisecond))
	config.Checked(fs, &f.tuning.MostDeadline, "task-deadline-most", dispatcher.DefaultMostDeadline,
		"how long at most once it did; at least --task-deadline", config.Lasting(time.Millisecond))
}

// complete refuses a command that lacks a flag it needs.
func (f *flags) complete(fs *flag.FlagSet, command string) (err error) {
	if command == "health" && f.url != "" {
		return nil
	}
	if f.data == "" {
		return config.Missing(fs, "data")
	}
	if takesFile(command) {
		return f.completeBackup(fs)
	}
	if !slices.Contains([]string{"run", "rehearse", "upgrade", "health", "webhooks"}, command) && f.url == "" {
		return config.Missing(fs, "url")
	}
	if err := f.completeWebhooks(fs, command); err != nil {
		return err
	}
	if command == "grow" && f.to == "" {
		return config.Missing(fs, "to")
	}
	if err := f.audit.complete(fs); err != nil {
		return err
	}
	if err := f.completeTLS(fs); err != nil {
		return err
	}
	if _, err := f.upgrade.action(); err != nil {
		fmt.Fprintf(fs.Output(), "%s: %v\n", fs.Name(), err)
		return config.ErrUsage
	}
	if f.handOut != "" {
		if f.handOut, err = filepath.Abs(f.handOut); err != nil {
			return err
		}
	}
	f.data, err = filepath.Abs(f.data) // printed paths can be used from any directory
	return err
}

// completeTLS refuses half of a certificate.
func (f *flags) completeTLS(fs *flag.FlagSet) error {
	if f.tls.Cert != "" && f.tls.Key == "" {
		return config.Missing(fs, "tls-key")
	}
	if f.tls.Cert == "" && f.tls.Key+f.tls.CA != "" {
		return config.Missing(fs, "tls-cert")
	}
	return nil
}

func dispatch(ctx context.Context, command string, f flags, stdout, stderr io.Writer) error {
	switch command {
	case "health":
		if f.url == "" {
			return cmp.Or(allinone.HealthOf(ctx, f.data), allinone.HasRoom(f.data))
		}
		return allinone.Health(ctx, f.url)
	case "backup":
		return allinone.WriteBackup(ctx, allinone.Backup{
			Data: f.data, URL: f.url, File: f.file, WithoutKeys: f.withoutKeys, AllowPlain: f.tls.AllowPlain,
			Log: stdout,
		})
	case "restore":
		return allinone.Restore(ctx, allinone.Restoring{
			File: f.file, Data: f.data, Keys: f.keys, Present: f.present, Log: stdout,
		})
	case "rehearse":
		return allinone.Rehearse(ctx, allinone.Rehearsal{
			Data: f.data, URL: f.url, TLS: f.tls, Cluster: f.cluster, Lazy: f.lazy, Log: stdout,
		})
	case "upgrade":
		return f.upgrade.run(ctx, f.data, stdout)
	case "webhooks":
		return f.hooks.Run(ctx, allinone.WebhooksOf(f.data, f.http.Webhooks), stdout)
	case "export-keys":
		return allinone.ExportKeys(allinone.Sharing{Data: f.data, File: f.file, Log: stdout})
	case "import-keys":
		return allinone.ImportKeys(allinone.Sharing{Data: f.data, File: f.file, Log: stdout})
	case "keys":
		return allinone.WriteKeys(allinone.Keys{
			Data: f.data, URL: f.url, Names: f.tls.Names, AllowPlain: f.tls.AllowPlain, ChangeCA: f.changeCA,
			Lobby: f.lobby, HandOut: f.handOut, Log: stdout,
		})
	case "provision":
		return allinone.Provision(ctx, allinone.Provisioning{
			Data: f.data, URL: f.url, Replicas: f.replicas, Lazy: f.lazy, DryRun: f.dryRun,
			Audit: f.audit.bounds(), AllowPlain: f.tls.AllowPlain, Log: stdout,
		})
	case "grow":
		return allinone.Grow(ctx, allinone.Growing{
			Data: f.data, URL: f.url, To: f.to, Replicas: f.replicas, Lazy: f.lazy, DryRun: f.dryRun,
			AllowPlain: f.tls.AllowPlain, Log: stdout,
		})
	}
	return runHere(ctx, f, stdout, stderr)
}

// runHere runs a whole Garrison until ctx is done, and again when its bus has to be restarted.
func runHere(ctx context.Context, f flags, stdout, stderr io.Writer) error {
	log, err := logs.New(stderr, "", f.level)
	if err != nil {
		return err
	}
	go boundGarbage(ctx)
	limitMemory(f.memoryLimit, log)
	c := allinone.Config{
		Data: f.data, Listen: f.listen, Advertise: f.advertise, TLS: f.tls, HTTP: f.http, Cluster: f.cluster,
		Services: f.services, Lazy: f.lazy, AcceptLedger: f.acceptLedger,
		Audit: f.audit.bounds(), Lobby: f.lobby, ImageKeys: f.imageKeys, Log: log, Tuning: f.tuning,
		Debug: &pkgdebug.State{}, Metrics: metrics.New(),
	}
	defer pkgdebug.Start(ctx, f.debugSocket, c.Debug, log)()
	served, err := metrics.Start(f.metrics, c.Metrics, log)
	if err != nil {
		return err
	}
	defer served.Close()
	manager := sdnotify.FromEnv(log)
	for {
		begun := time.Now()
		manager.Expect(sdnotify.StartWithin)
		err := serve(ctx, c, manager, stdout)
		if !errors.Is(err, allinone.ErrStore) || time.Since(begun) < againAfter {
			return err
		}
		log.Warn().Err(err).Msg("restarting the bus")
	}
}

// againAfter is how long it must have run to be restarted; a disk that fails sooner needs a person.
const againAfter = 10 * time.Second

// serve runs one Garrison until it ends.
func serve(ctx context.Context, c allinone.Config, manager *sdnotify.Notifier, stdout io.Writer) error {
	g, err := allinone.Start(ctx, c)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // a signal ended the start
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := g.Close(); err != nil {
			c.Log.Warn().Err(err).Msg("exiting without a clean shutdown of the bus")
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	said, ready := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		if g.WaitReady(ctx) == nil { // the next command is answered
			manager.Ready()
			close(ready)
			fmt.Fprintf(stdout, "garrisond %s listens at %s\nUse it with: export GARRISON_CONTEXT=%s\n",
				version.Version, g.URL(), g.ContextFile())
			if url := allinone.HTTPURL(g); url != "" {
				fmt.Fprintf(stdout, "HTTP is served at %s\nOpen the console with: garrison console\n", url)
			}
		}
	}()
	defer func() { cancel(); <-said }()
	g.Add(manager.Watched(ready, g.Alive)...)
	return g.Run(ctx)
}
