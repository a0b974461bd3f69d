// Package process is what the mains of the services share: flags, the log, the
// connection, signals, and the two subcommands that every service has.
//
//	registry [flags]             runs the service
//	registry view [--at N]       folds the ledger afresh in this process and prints the
//	                             view's position, digest and size; --out FILE keeps its canonical encoding
//	registry health              exits 0 when the service answers on the bus
//
// Exit codes: 0 stopped by a signal, 1 error, 2 usage.
package process

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/heap"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Spec says what a service's main is.
type Spec struct {
	View  fold.Spec                              // its service is the service's and its user's name
	Flags func(*flag.FlagSet)                    // the flags of its own, or nil
	Run   func(ctx context.Context, e Env) error // runs the service until ctx is done
}

// Env is what a service is given to run with.
type Env struct {
	Conn  *bus.Conn
	Dial  func(user, credentials string) (*bus.Conn, error) // connects as another user, with a credentials file
	CA    func() ([]byte, error)                            // the CAs of the bus, or nil
	Store string                                            // a directory for snapshots, or empty
	// AcceptLedger takes a ledger that lost facts as it is, for this start.
	AcceptLedger bool
	Debug        *debug.State // what the debug socket shows
	Metrics      *metrics.Set // what is measured
	Log          zerolog.Logger
}

type flags struct {
	url, credentials, ca, store, level, output string
	debugSocket, metrics                       string
	at                                         uint64
	showVersion, acceptLedger, allowPlain      bool
}

// AcceptLedgerUsage is the help of the flag --accept-ledger.
const AcceptLedgerUsage = "start once with a ledger that lost facts (LEDGER_SHORT, LEDGER_GAP), without them"

// AllowPlainUsage is the help of the flag --allow-plain of programs that connect.
const AllowPlainUsage = "connect to a bus on another host without TLS: anybody on the way can read and change " +
	"everything"

// Main runs a service's main and ends the process.
func Main(s Spec) {
	ctx, cancel := rungroup.Signals()
	code := run(ctx, s, os.Args[1:], os.Getenv, visible.Writer(os.Stdout), visible.Writer(os.Stderr))
	cancel()
	os.Exit(code)
}

func run(ctx context.Context, s Spec, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	command, args, err := config.Command(s.View.Service, args, stderr, "run", "view", "health")
	if err != nil {
		return config.ExitCode(err)
	}
	var f flags
	fs := flag.NewFlagSet(s.View.Service, flag.ContinueOnError)
	config.Checked(fs, &f.url, "bus", "nats://127.0.0.1:4222", "`URL` of the bus, several with commas", config.BusURL)
	fs.StringVar(&f.credentials, "credentials", "", "credentials `FILE` of the service")
	config.Checked(fs, &f.ca, "bus-ca", "", "`FILE` with the CAs that may sign the bus's certificate, read again at "+
		"each connect; default: the CAs of the operating system", config.File)
	fs.BoolVar(&f.allowPlain, "allow-plain", false, AllowPlainUsage)
	fs.StringVar(&f.store, "data", "", "`DIRECTORY` for snapshots of the view; none are kept without it")
	config.Checked(fs, &f.level, "log-level", "info", "debug, info, warn or error", config.Level)
	fs.BoolVar(&f.showVersion, "version", false, "print the version and stop")
	if command != "health" {
		fs.BoolVar(&f.acceptLedger, "accept-ledger", false, AcceptLedgerUsage)
	}
	if command == "run" {
		fs.StringVar(&f.debugSocket, "debug-socket", "", debug.Usage)
		config.Checked(fs, &f.metrics, "metrics", "", metrics.Usage, metrics.Address)
	}
	if command == "view" {
		config.Checked(fs, &f.at, "at", 0, "fold up to this `SEQUENCE` of the ledger; 0 means its present end",
			config.From[uint64](0))
		fs.StringVar(&f.output, "out", "", "write the canonical encoding to this `FILE`")
	}
	if s.Flags != nil {
		s.Flags(fs)
	}
	if err := config.Parse(fs, args, getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, s.View.Service, version.Version)
		return 0
	}
	if getenv("GOGC") == "" {
		go heap.Keep(ctx)
	}
	if err := dispatch(ctx, s, command, f, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", s.View.Service, err)
		return 1
	}
	return 0
}

func dispatch(ctx context.Context, s Spec, command string, f flags, stdout, stderr io.Writer) error {
	log, err := logs.New(stderr, s.View.Service, f.level)
	if err != nil {
		return err
	}
	if f.store != "" {
		if err := strictdir.Dir(f.store); err != nil {
			return err
		}
	}
	trusted := bus.TLS{AllowPlain: f.allowPlain, Source: cmp.Or(f.ca, "this machine"), Renew: "--bus-ca FILE"}
	if f.ca != "" {
		trusted.CA = trust.ReadBundle(f.ca)
	}
	o := bus.Options{URL: f.url, Name: s.View.Service, TLS: trusted, Log: log, Persist: command == "run"}
	if f.credentials != "" {
		o.Credentials, o.API = trust.ReadCredentials(f.credentials), topology.APIOf(s.View.Service)
	}
	conn, err := bus.Dial(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch command {
	case "view":
		return view(ctx, conn, s, f, stdout)
	case "health":
		if err := conn.WaitConnected(ctx); err != nil {
			return err
		}
		return about(ctx, conn, s.View.Service)
	}
	return serve(ctx, s, f, o, conn)
}

// serve runs the service until ctx is done.
func serve(ctx context.Context, s Spec, f flags, o bus.Options, conn *bus.Conn) error {
	log, measured := o.Log, metrics.New()
	served, err := metrics.Start(f.metrics, measured, log)
	if err != nil {
		return err
	}
	defer served.Close()
	if err := conn.WaitConnected(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := conn.WaitStream(ctx, topology.Ledger); err != nil {
		return stopped(ctx, err)
	}
	log.Info().Str(logs.Version, version.Version).Msg("service started")
	state := &debug.State{}
	state.Set("connection", func() any {
		a := conn.Access()
		return map[string]any{"login": a.Login.String(), "reason": a.Reason, "since": a.Since}
	})
	defer debug.Start(ctx, f.debugSocket, state, log)()
	defer notifyReady(ctx, conn, s.View.Service, log)()
	err = stopped(ctx, s.Run(ctx, Env{
		Conn: conn, Dial: dialAs(o), CA: o.TLS.CA, Store: f.store, AcceptLedger: f.acceptLedger, Debug: state,
		Metrics: measured.Under(s.View.Service), Log: log,
	}))
	log.Info().Err(err).Msg("service stopped")
	return err
}

// readyEvery is the interval between two looks whether a service that starts answers.
const readyEvery = 200 * time.Millisecond

// notifyReady notifies the service manager, if one started this process, once the service answers. The caller calls
// stop.
func notifyReady(ctx context.Context, conn *bus.Conn, service string, log zerolog.Logger) (stop func()) {
	manager := sdnotify.FromEnv(log)
	if manager == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for about(ctx, conn, service) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(readyEvery):
			}
		}
		manager.Ready()
	}()
	return func() { cancel(); <-ended }
}

// dialAs returns what connects as another user, to the same bus.
func dialAs(o bus.Options) func(user, credentials string) (*bus.Conn, error) {
	return func(user, credentials string) (*bus.Conn, error) {
		o.Name, o.API, o.Credentials = user, topology.APIOf(user), trust.ReadCredentials(credentials)
		return bus.Dial(o)
	}
}

// stopped returns nil for the error of a stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || err == nil) {
		return nil
	}
	return err
}

func view(ctx context.Context, conn *bus.Conn, s Spec, f flags, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	v, o := s.View.New(), s.View.Options()
	o.AcceptLedger = f.acceptLedger
	position, err := fold.RebuildTo(ctx, conn, v, o, f.at)
	if err != nil {
		return fmt.Errorf("rebuild the view: %w", err)
	}
	encoding, err := fold.CanonicalOf(v)
	if err != nil {
		return err
	}
	if f.output != "" {
		if err := os.WriteFile(filepath.Clean(f.output), encoding, 0o600); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "position %d\nsha256 %x\nbytes %d\n", position, fold.Digest(encoding), len(encoding))
	return err
}

// about returns nil when a process of the service answers.
func about(ctx context.Context, conn *bus.Conn, service string) error {
	method := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods().ByName("About")
	_, err := bus.Call[*apiv1.AboutResponse](ctx, conn, service, method, &apiv1.AboutRequest{})
	return err
}
