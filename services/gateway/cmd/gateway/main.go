// Command gateway serves the API over HTTP, for a bus in another process.
//
//	gateway --bus URL                                      runs it
//	gateway webhooks --webhooks FILE --webhooks-state DIR  checks and lists webhooks (--test, --dead, --resend ROUTE,
//	                                                       --rotate-key)
//
// Exit codes: 0 stopped by a signal, 1 error, 2 usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

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
	webhooks                                   gateway.Webhooks
	command                                    gateway.WebhookCommand
}

func (f *flags) define(fs *flag.FlagSet, command string) {
	fs.BoolVar(&f.showVersion, "version", false, "print the version and stop")
	config.Checked(fs, &f.webhooks.File, "webhooks", "", gateway.WebhooksUsage, config.File)
	config.Checked(fs, &f.webhooks.Dir, "webhooks-state", "", "the `DIRECTORY` for the keys and places of --webhooks, "+
		"created if it is missing", config.Text)
	if command == "webhooks" {
		f.command.Define(fs)
		return
	}
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
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	command, args, err := config.Command("gateway", args, stderr, "run", "webhooks")
	if err != nil {
		return config.ExitCode(err)
	}
	var f flags
	fs := flag.NewFlagSet(strings.TrimSuffix("gateway "+command, " run"), flag.ContinueOnError)
	f.define(fs, command)
	if err := config.Parse(fs, args, getenv, stderr); err != nil {
		return config.ExitCode(err)
	}
	if f.showVersion {
		fmt.Fprintln(stdout, "gateway", version.Version)
		return 0
	}
	if err := f.complete(fs, command); err != nil {
		return config.ExitCode(err)
	}
	if command == "webhooks" {
		err = f.command.Run(ctx, f.webhooks, stdout)
	} else {
		err = serve(ctx, f, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "gateway:", err)
		return 1
	}
	return 0
}

// complete refuses flags that lack another one.
func (f *flags) complete(fs *flag.FlagSet, command string) error {
	switch {
	case command == "webhooks" && f.webhooks.File == "":
		return config.Missing(fs, "webhooks")
	case f.webhooks.File != "" && f.webhooks.Dir == "":
		return config.Missing(fs, "webhooks-state")
	case (f.cert == "") != (f.key == ""):
		return config.Missing(fs, map[bool]string{true: "tls-cert", false: "tls-key"}[f.cert == ""])
	}
	return f.command.Check(fs)
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
		Webhooks: f.webhooks,
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
