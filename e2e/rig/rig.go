// Package rig runs a whole Garrison from its real binaries, in a directory of its own
// on the loopback address: garrisond or the services apart, an executor process with
// its own root directory for each server, and the operator's CLI. Scenarios, chaos,
// failover, handover, the demo and the benchmarks drive it. Its folders load it, break
// it, and verify what holds afterwards.
//
// Guarantees:
//
//  1. Only the shipped binaries, the CLI and package client change anything.
//  2. Close ends every process that was started, and every agent that those started,
//     by its id, and returns an error that names those it had to kill.
//  3. Every port is free when it is chosen, and no two servers of a process share one.
//  4. Close checks every invariant over the ledger, so that no scenario leaves that out.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Options say what kind of fleet it is.
type Options struct {
	Bin      string        // where the binaries are
	Dir      string        // where everything goes; must be empty or missing
	Cluster  bool          // three garrisonds, which are the bus and, unless Apart, run the services
	Networks bool          // each garrisond of a cluster has a network of its own, so that CutOff works; needs root
	Apart    bool          // the services run in processes of their own, not inside garrisond
	Beat     time.Duration // how often servers beat; 0 means 1 s, to be quick in tests
	Check    time.Duration // between two checks of the agents on a server; 0 means 2 s, to be quick in tests
	Deadline time.Duration // how long a task may take; 0 means the dispatcher's default
	Retry    bool          // what failed on several servers is not blocked
	Lazy     bool          // do not sync each write to disk
	Lobby    bool          // machines may ask to join without a token
	Audit    bool          // the bus keeps a copy of the ledger for auditors
	Metrics  bool          // processes serve metrics on the sockets that MetricsSocket names, and garrisond HTTP
	Views    bool          // services that run apart keep snapshots of their views
	Foreign  []string      // subjects of facts that the scenario stores by hand and no program knows
}

// Fleet is a Garrison with its servers.
type Fleet struct {
	Options
	Garrisond *Process            // the bus, with every service unless they run apart; of a cluster, the first
	Members   []*Process          // the garrisonds of a cluster
	Services  map[string]*Process // the services, when they run apart
	hosts     []string            // of the garrisonds of a cluster
	networks  *networks           // of them; nil without Networks
	replicas  []*Process
	servers   []*Server

	Intents  load.Intents // which Verify knows that the bus acknowledged
	wasReady bool         // every service answered once
}

// New creates a fleet's directory. Start starts its processes.
func New(o Options) (*Fleet, error) {
	if o.Beat == 0 {
		o.Beat = time.Second
	}
	if o.Check == 0 {
		o.Check = 2 * time.Second
	}
	var err error
	if o.Bin, err = filepath.Abs(o.Bin); err != nil {
		return nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("make fleet: %w", err)
	}
	f := &Fleet{Options: o, Services: map[string]*Process{}}
	args := []string{"--data", f.path("data"), "--beat-interval", o.Beat.String()}
	if o.Lazy {
		args = append(args, "--allow-lazy-sync")
	}
	if o.Lobby {
		args = append(args, "--lobby")
	}
	if o.Audit {
		args = append(args, "--audit-size", "64")
	}
	if o.Metrics {
		args = append(args, "--metrics", "unix:"+f.MetricsSocket("garrisond"), "--http", "127.0.0.1:0")
	}
	if o.Deadline > 0 {
		args = append(args, "--task-deadline", o.Deadline.String())
	}
	if o.Retry {
		args = append(args, "--block-after", "0")
	}
	if o.Apart {
		args = append(args, "--services", "none")
	}
	if o.Cluster {
		f.makeMembers(args)
		return f, nil
	}
	port, err := freeport.Take() // one that garrisond picks could be taken while it restarts
	if err != nil {
		return nil, err
	}
	f.Garrisond = f.process("garrisond", "garrisond", append(args, "--listen", freeport.Address(port))...)
	return f, nil
}

// MetricsSocket returns the socket on which garrisond or the executor of a server serves metrics.
func (f *Fleet) MetricsSocket(name string) string { return f.path(name + ".metrics") }

func (f *Fleet) path(parts ...string) string {
	return filepath.Join(append([]string{f.Dir}, parts...)...)
}

func (f *Fleet) process(name, bin string, args ...string) *Process {
	return &Process{Name: name, bin: filepath.Join(f.Bin, bin), args: args, log: f.path("logs", name+".log")}
}

// Start starts the control plane and waits until it answers.
func (f *Fleet) Start(ctx context.Context) error {
	start := f.StartBus
	if f.Cluster {
		start = f.startMembers
	}
	if err := start(ctx); err != nil {
		return err
	}
	if f.Apart {
		for _, name := range topology.Services {
			if err := f.StartService(name); err != nil {
				return err
			}
		}
	}
	err := f.WaitReady(ctx)
	f.wasReady = f.wasReady || err == nil
	return err
}

// StartService starts a service in a process of its own, the first time with these further arguments.
func (f *Fleet) StartService(name string, more ...string) error {
	if f.Services[name] == nil {
		f.Services[name] = f.process(name, name, append(f.serviceArgs(name, name), more...)...)
	}
	return f.Services[name].Start()
}

// StartBus starts garrisond and waits until its bus listens.
func (f *Fleet) StartBus(ctx context.Context) error {
	if err := f.Garrisond.Start(); err != nil {
		return err
	}
	return until(ctx, "the bus listens", func(ctx context.Context) error {
		address, err := os.ReadFile(f.path("data", "address"))
		if err != nil {
			return err
		}
		if _, err := os.Stat(f.ContextFile()); err != nil {
			return err
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimSpace(string(address)))
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// serviceArgs returns the arguments of a service; process is its name, or that of its replica.
func (f *Fleet) serviceArgs(name, process string) []string {
	args := []string{
		"--bus", f.URL(), "--bus-ca", f.CAFile(), "--credentials", f.path("data", "trust", "services", name+".creds"),
	}
	if f.Views {
		args = append(args, "--data", f.path("views", process))
	}
	switch name {
	case topology.UserRegistry:
		args = append(args, "--signer", f.path("data", "trust", "signer"), "--join-url", f.URL(), "--beat-interval",
			f.Beat.String(), "--secrets", f.path("data", "trust", "secrets.key"))
		if f.Lobby {
			args = append(args, "--lobby")
		}
		if f.Retry {
			args = append(args, "--block-after", "0")
		}
	case topology.UserAccess:
		args = append(args, "--trust", f.path("data", "trust"), "--system-credentials",
			f.path("data", "trust", "services", topology.UserAccessSystem+".creds"))
	case topology.UserDispatcher:
		args = append(args, "--secrets", f.path("data", "trust", "secrets.key"))
		if f.Deadline > 0 {
			args = append(args, "--task-deadline", f.Deadline.String())
		}
	}
	return args
}

// Replica makes a second process of a service that runs apart.
func (f *Fleet) Replica(service string) *Process {
	p := f.process(service+"-2", service, f.serviceArgs(service, service+"-2")...)
	f.replicas = append(f.replicas, p)
	return p
}

// WaitReady waits until every service answers.
func (f *Fleet) WaitReady(ctx context.Context) error {
	return until(ctx, "every service answers", f.ready)
}

// readyTimeout bounds one question to a service that may be starting.
const readyTimeout = 2 * time.Second

// ready returns an error unless each service answers a question about what it keeps.
func (f *Fleet) ready(ctx context.Context) error {
	c, err := f.Client(ctx, readyTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	one := &apiv1.Page{Limit: 1}
	_, err = client.Call[*registryv1.ListServersResponse](ctx, c, &registryv1.ListServersRequest{Page: one})
	if err == nil {
		_, err = client.Call[*catalogv1.ListImagesResponse](ctx, c, &catalogv1.ListImagesRequest{Page: one})
	}
	if err == nil {
		_, err = client.Call[*dispatcherv1.ListTasksResponse](ctx, c, &dispatcherv1.ListTasksRequest{Page: one})
	}
	return err
}

// Processes returns every process of the control plane in the order of their starts: the bus, services, replicas.
func (f *Fleet) Processes() []*Process {
	out := slices.Clone(f.Members)
	if !f.Cluster {
		out = append(out, f.Garrisond)
	}
	for _, name := range topology.Services {
		if p := f.Services[name]; p != nil {
			out = append(out, p)
		}
	}
	return append(out, f.replicas...)
}

// Servers returns the servers that were added and not dropped.
func (f *Fleet) Servers() []*Server { return slices.Clone(f.servers) }

// Drop removes a server from the fleet: one that is dead and whose executor has ended.
func (f *Fleet) Drop(s *Server) {
	f.servers = slices.DeleteFunc(f.servers, func(other *Server) bool { return other == s })
}

// DataDir returns the directory of garrisond.
func (f *Fleet) DataDir() string { return f.path("data") }

// ViewsDir returns the directory of the snapshots: of the services that run apart, or of garrisond.
func (f *Fleet) ViewsDir() string {
	if f.Apart {
		return f.path("views")
	}
	return f.path("data", "views")
}

// URL returns the address of the bus for clients without its CA, which a bus on loopback lets in; of a cluster, those
// of its servers.
func (f *Fleet) URL() string {
	if f.Cluster {
		return f.membersURL()
	}
	address, err := os.ReadFile(f.path("data", "address"))
	if err != nil {
		return ""
	}
	return "nats://" + strings.TrimSpace(string(address))
}

// CAFile returns the file with the CA of the bus.
func (f *Fleet) CAFile() string { return f.path("data", "trust", "tls", "ca.pem") }

// ContextFile returns the operator's context.
func (f *Fleet) ContextFile() string { return f.path("data", "operator.json") }

// CLIError is a call of the CLI that exited with another code than 0.
type CLIError struct {
	Args   []string
	Code   int
	Stderr string
}

func (e *CLIError) Error() string {
	return fmt.Sprintf("garrison %s: exit code %d: %s", strings.Join(e.Args, " "), e.Code, strings.TrimSpace(e.Stderr))
}

// CLI runs garrison with the operator's context and returns its standard output. Its
// error is a *CLIError when garrison exits with another code than 0.
func (f *Fleet) CLI(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(f.Bin, "garrison"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.Dir, "GARRISON_CONTEXT=" + f.ContextFile()}
	cmd.Dir = f.Dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), &CLIError{Args: args, Code: exit.ExitCode(), Stderr: stderr.String()}
	}
	return stdout.String(), err
}

// Client connects as the first operator. A call may take up to timeout; 0 means the default of package client. The
// caller closes the client.
func (f *Fleet) Client(ctx context.Context, timeout time.Duration) (*client.Client, error) {
	who, err := trust.ReadContext(f.ContextFile())
	if err != nil {
		return nil, err
	}
	return client.Connect(ctx, client.Options{Context: who, Timeout: timeout})
}

// View runs a service's binary to fold the ledger afresh up to a position, and returns
// what it printed. It may run beside the service.
func (f *Fleet) View(ctx context.Context, service string, at uint64, file string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(f.Bin, service), "view", "--bus", f.URL(),
		"--credentials", f.path("data", "trust", "services", service+".creds"), "--at", fmt.Sprint(at), "--out", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rebuild %s: %w: %s", service, err, out)
	}
	return string(out), nil
}

// Close verifies what must hold at the end of every scenario (see Verify) and stops
// everything, in order: executors with their agents, services, bus. It kills what is
// left; its error names it.
func (f *Fleet) Close() error {
	errs := []error{f.verifyAtEnd()}
	for _, s := range f.servers {
		errs = append(errs, s.Executor.Stop())
	}
	for _, p := range slices.Backward(f.Processes()) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(append(errs, f.killRest(), f.networks.remove())...)
}
