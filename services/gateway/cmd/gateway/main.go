// Command gateway serves the API over HTTP, for a bus in another process.
//
// Exit codes: 0 stopped by a signal, 1 error, 2 usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/gateway"
)

func main() {
	ctx, cancel := rungroup.Signals()
	code := run(ctx, os.Args[1:], os.Getenv, visible.Writer(os.Stdout), visible.Writer(os.Stderr))
	cancel()
	os.Exit(code)
}

// flags are those of the command line.
type flags struct {
	bus, ca, listen, cert, key, level, metrics string
	allowPlain, plain, showVersion             bool
}

func (f *flags) define(fs *flag.FlagSet) {
	config.Checked(fs, &f.bus, "bus", "nats://127.0.0.1:4222", "`URL` of the bus, several with commas", config.BusURL)
	config.Checked(fs, &f.ca, "bus-ca", "", "`FILE` with the CAs that may sign the bus's certificate, read again at "+
		"each connect; default: the CAs of the operating system", config.File)
	fs.BoolVar(&f.allowPlain, "allow-plain", false, process.AllowPlainUsage)
	config.Checked(fs, &f.listen, "http", "127.0.0.1:8440", "the `ADDRESS` to serve HTTP at", config.Address)
	config.Checked(fs, &f.cert, "tls-cert", "", "a `FILE` with a certificate and its chain, followed while it runs; "+
		"needed where other hosts reach --http", config.File)
	config.Checked(fs, &f.key, "tls-key", "", "the `FILE` with the key of --tls-cert", config.File)
	fs.BoolVar(&f.plain, "http-plain", false, "serve without TLS also where other hosts reach --http, as behind a "+
		"proxy: anybody on the way can read bearer tokens, and act as their users")
	config.Checked(fs, &f.level, "log-level", "info", "debug, info, warn or error", config.Level)
	config.Checked(fs, &f.metrics, "metrics", "", metrics.Usage, metrics.Address)
	fs.BoolVar(&f.showVersion, "version", false, "print the version and stop")
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	_, args, err := config.Command("gateway", args, stderr, "run")
	if err != nil {
		return config.ExitCode(err)
	}
	var f flags
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.define(fs)
	if err := config.Parse(fs, args, getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, "gateway", version.Version)
		return 0
	}
	if (f.cert == "") != (f.key == "") {
		return config.ExitCode(config.Missing(fs, "tls-cert and --tls-key"))
	}
	if err := serve(ctx, f, stderr); err != nil {
		fmt.Fprintln(stderr, "gateway:", err)
		return 1
	}
	return 0
}

// serve serves until ctx is done.
func serve(ctx context.Context, f flags, stderr io.Writer) error {
	log, err := logs.New(stderr, "gateway", f.level)
	if err != nil {
		return err
	}
	measured := metrics.New()
	c := gateway.Config{
		Listen: f.listen, Plain: f.plain, Bus: f.where, Metrics: measured.Under("gateway"), Log: log,
	}
	if f.cert != "" {
		if c.TLS, err = gateway.Certificate(f.cert, f.key); err != nil {
			return err
		}
	}
	served, err := metrics.Start(f.metrics, measured, log)
	if err != nil {
		return err
	}
	defer served.Close()
	g, err := gateway.New(c)
	if err != nil {
		return err
	}
	sdnotify.FromEnv(log).Ready()
	return g.Run(ctx)
}

// where returns where the bus is.
func (f flags) where() (trust.Context, error) {
	at := trust.Context{URL: f.bus, AllowPlain: f.allowPlain}
	if f.ca == "" {
		return at, nil
	}
	ca, err := trust.ReadBundle(f.ca)()
	at.CA = string(ca)
	return at, err
}
