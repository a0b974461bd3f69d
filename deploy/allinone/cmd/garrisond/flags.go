package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/process"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/gateway"
	"github.com/garrison-fleet/garrison/services/registry"
)

// budgets defines the flags that bound what each writer may have recorded.
func (f *flags) budgets(fs *flag.FlagSet) {
	config.Checked(fs, &f.tuning.ServerBudget, "server-budget", registry.DefaultServerBudget,
		"how many `BYTES` of facts one server may cause in a day; beyond, it is quarantined",
		config.From[uint64](registry.LeastServerBudget))
	config.Checked(fs, &f.tuning.UserBudgets.User, "user-budget", registry.DefaultUserBudget,
		"how many `BYTES` of facts one user may cause in a day; beyond, requests and intents are refused",
		config.From[uint64](registry.LeastServerBudget))
	config.Checked(fs, &f.tuning.UserBudgets.Reporter, "reporter-budget", registry.DefaultReporterBudget,
		"how many `BYTES` of facts one reporter of external instances may cause in a day",
		config.From[uint64](registry.LeastServerBudget))
}

// ownTLS defines how clients know the bus in this process.
func (f *flags) ownTLS(fs *flag.FlagSet) {
	config.Checked(fs, &f.advertise, "advertise", "",
		"the `HOST` or HOST:PORT that servers on other hosts connect to; default: that of --listen", config.Text)
	config.Checked(fs, &f.tls.Cert, "tls-cert", "", "a `FILE` with the bus's own certificate and chain, followed "+
		"while it runs; default: one by a CA in the data directory", config.File)
	config.Checked(fs, &f.tls.Key, "tls-key", "", "the `FILE` with the key of --tls-cert", config.File)
	config.Checked(fs, &f.tls.CA, "tls-ca", "", "the `FILE` with the CA that signed --tls-cert; default: clients "+
		"trust the CAs of their operating system", config.File)
	fs.BoolVar(&f.tls.AllowPlain, "allow-plain", false, "let clients on other hosts connect without TLS: anybody on "+
		"the way can read and change everything")
	f.tlsNames(fs)
}

// ownHTTP defines where the gateway in this process serves HTTP.
func (f *flags) ownHTTP(fs *flag.FlagSet) {
	config.Checked(fs, &f.http.Listen, "http", "", "serve the API over HTTP at this `ADDRESS`, such as "+
		"127.0.0.1:8440; where other hosts reach it, with TLS and the certificate of the bus; default: nowhere",
		config.Address)
	fs.BoolVar(&f.http.Plain, "http-plain", false, "serve --http without TLS also where other hosts reach it, as "+
		"behind a proxy: anybody on the way can read bearer tokens, and act as their users")
	f.webhooksFile(fs)
}

func (f *flags) webhooksFile(fs *flag.FlagSet) {
	config.Checked(fs, &f.http.Webhooks, "webhooks", "", gateway.WebhooksUsage+"; needs --http", config.File)
}

// completeWebhooks refuses webhooks without the gateway, and a command without its file.
func (f *flags) completeWebhooks(fs *flag.FlagSet, command string) error {
	switch {
	case command == "webhooks" && f.http.Webhooks == "":
		return config.Missing(fs, "webhooks")
	case slices.Contains([]string{"run", "rehearse"}, command) && f.http.Webhooks != "" && f.http.Listen == "":
		return config.Missing(fs, "http")
	}
	return f.hooks.Check(fs)
}

// otherTLS defines how clients know a bus in another process.
func (f *flags) otherTLS(fs *flag.FlagSet, command string) {
	fs.BoolVar(&f.tls.AllowPlain, "allow-plain", false, process.AllowPlainUsage)
	if command == "keys" {
		fs.BoolVar(&f.lobby, "lobby", false, "let machines without a token ask to join; the registry needs --lobby too")
		config.Checked(fs, &f.changeCA, "change-ca", "", "a `STEP` to another CA: begin or end",
			config.OneOf("begin", "end"))
		config.Checked(fs, &f.handOut, "hand-out", "", "a `DIRECTORY` that gets one for the bus, each service, "+
			"provision and the operator, with the files that each needs and no others", config.Text)
		f.tlsNames(fs)
	}
}

func (f *flags) tlsNames(fs *flag.FlagSet) {
	fs.Func("tls-name", "a host `NAME` or address of the bus for its certificate, besides those it knows; repeatable",
		func(name string) error { f.tls.Names = append(f.tls.Names, name); return nil })
}

// auditFlags bound the copy of the ledger.
type auditFlags struct {
	mib int
	age time.Duration
}

func (a *auditFlags) define(fs *flag.FlagSet) {
	config.Checked(fs, &a.mib, "audit-size", 0, "keep a copy of the ledger, of this many `MIB` at most, for users "+
		"with the role auditor; 0 means none, and deletes one that there is", auditSize)
	config.Checked(fs, &a.age, "audit-age", 0, "how long a fact stays in that copy at most; default: as long as "+
		"--audit-size has room for it", config.Lasting(time.Second))
}

// mostAudit is 16 TiB, in MiB.
const mostAudit = 16 << 20

// auditSize takes the size of the copy.
func auditSize(s string) (int, error) {
	n, err := config.From(0)(s)
	if err == nil && n > mostAudit {
		err = fmt.Errorf("want at most %d MiB", mostAudit)
	}
	return n, err
}

// complete refuses an age without a copy.
func (a *auditFlags) complete(fs *flag.FlagSet) error {
	if a.age > 0 && a.mib == 0 {
		return config.Missing(fs, "audit-size")
	}
	return nil
}

func (a *auditFlags) bounds() topology.CopyBounds {
	return topology.CopyBounds{Age: a.age, Bytes: int64(a.mib) << 20}
}

// takesFile reports whether the first argument of a command is a file.
func takesFile(command string) bool {
	return slices.Contains([]string{"backup", "restore", "export-keys", "import-keys"}, command)
}

// completeBackup refuses a command without its file.
func (f *flags) completeBackup(fs *flag.FlagSet) (err error) {
	if f.file == "" {
		fmt.Fprintf(fs.Output(), "%s: FILE is missing: %s FILE --data DIR\n", fs.Name(), fs.Name())
		return config.ErrUsage
	}
	if f.file, err = filepath.Abs(f.file); err == nil {
		f.data, err = filepath.Abs(f.data)
	}
	return err
}
