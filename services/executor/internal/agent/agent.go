// Package agent runs one agent on this server: its variables, processes, sockets and
// configuration, for the version that is installed and for the one that comes.
//
// Guarantees:
//
//  1. A version has one unit, shared by all callers, from the first use to Stop.
//  2. A process is started with its own version's environment, and with the sockets that the
//     version names.
//  3. Configs.Link leads to a whole configuration or returns an error.
//  4. A process whose image is damaged is not started while a repair may come, for 30 s at most.
package agent

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/variables"
)

// Version is one version of an agent with what its variables stand for.
type Version struct {
	Agent            string
	Image            change.Manifest
	Labels, Metadata map[string]string // with the secrets in clear
	Config           string            // the configuration's directory, unless it is where the link leads
	Adopted          *change.Adoption  // the process that was adopted as this version; nil for none
}

// Installed returns the version of an inventory line.
func Installed(i *change.Instance) Version {
	return Version{
		Agent: i.Agent, Image: i.Image, Labels: i.Labels, Metadata: metadata.Merge(i.Metadata, i.Secrets),
		Adopted: i.Adopted,
	}
}

// Coming returns the version that a change brings.
func Coming(r *change.Record) Version {
	return Version{
		Agent: r.Agent, Image: r.To, Labels: r.Labels, Metadata: metadata.Merge(r.Metadata, r.Secrets),
		Adopted: r.Adoption,
	}
}

// ReadyWithin returns how long the version has to become ready, to run through, or to check itself.
func (v Version) ReadyWithin() time.Duration {
	return cmp.Or(time.Duration(v.run().GetReady().GetTimeoutMs())*time.Millisecond, healthcheck.DefaultTimeout)
}

// Soak returns how long the version is watched once it is ready.
func (v Version) Soak() time.Duration {
	return cmp.Or(time.Duration(v.run().GetReady().GetSoakMs())*time.Millisecond, healthcheck.DefaultSoak)
}

// Answers reports whether the version's health check asks something that answers at any time, unlike READY=1.
func (v Version) Answers() bool {
	r := v.run().GetReady()
	return r.GetHttp() != "" || r.GetTcp() != "" || r.GetExec() != nil
}

// RestartAfter returns after how many failed probes in a row the version is restarted; nil when its image does not say.
func (v Version) RestartAfter() *uint32 {
	if r := v.run().GetReady(); r != nil {
		return r.RestartAfter
	}
	return nil
}

func (v Version) run() *imagev1.Run { return v.Image.GetRun() }

// Specs describes how versions run on one server. It changes nothing.
type Specs struct {
	Root   layout.Root
	Server string // its id
}

// Facts returns what the version's variables stand for.
func (s Specs) Facts(v Version) variables.Facts {
	return variables.Facts{
		Agent: v.Agent, Version: v.Image.GetVersion(), Server: s.Server, Labels: v.Labels, Metadata: v.Metadata,
		State: s.Root.State(v.Agent), Image: s.Root.Image(v.Image.Digest()),
		Config: cmp.Or(v.Config, s.Root.Config(v.Agent)),
	}
}

// Fill returns the version's Run with its variables filled in.
func (s Specs) Fill(v Version) (variables.Run, error) { return s.Facts(v).Values().Fill(v.run()) }

// Sockets returns the sockets that a daemon's version names, with variables filled in.
func (s Specs) Sockets(v Version) ([]*imagev1.Socket, error) {
	if !v.Image.IsDaemon() {
		return nil, nil
	}
	run, err := s.Fill(v)
	return run.Sockets, err
}

// Path returns the path of a command in the version's image.
func (s Specs) Path(v Version, command string) string {
	return filepath.Join(s.Root.Image(v.Image.Digest()), filepath.Clean("/"+command))
}

// Program returns the path of the version's command; empty when its variables cannot be filled in.
func (s Specs) Program(v Version) string {
	run, err := s.Fill(v)
	if err != nil {
		return ""
	}
	return s.Path(v, run.Command)
}

// RecordPath returns the file that records the version's process. Two versions can run in an overlap.
func (s Specs) RecordPath(v Version) string {
	return filepath.Join(s.Root.Run(v.Agent), supervise.RecordName(v.Image.GetId()))
}

// NotifyPath returns the socket on which the version says READY=1.
func (s Specs) NotifyPath(v Version) string {
	return filepath.Join(s.Root.Run(v.Agent), "notify-"+ident.Short(v.Image.GetId()))
}

// stateVariable is the variable of an agent's environment that is of no other agent, also on a server with several
// executors.
const stateVariable = "GARRISON_STATE"

// Spec returns how to run the version. notify is the path of its notify socket, or empty.
func (s Specs) Spec(v Version, notify string) (supervise.Spec, error) {
	run, err := s.Fill(v)
	if err != nil {
		return supervise.Spec{}, err
	}
	env := []string{
		"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		"GARRISON_AGENT=" + v.Agent, "GARRISON_VERSION=" + v.Image.GetVersion(),
		"GARRISON_SERVER=" + s.Server, stateVariable + "=" + s.Root.State(v.Agent),
		"GARRISON_IMAGE=" + s.Root.Image(v.Image.Digest()),
	}
	if len(v.run().GetConfigs()) > 0 {
		env = append(env, "GARRISON_CONFIG="+s.Facts(v).Config)
	}
	env = append(env, run.Env...)
	if notify != "" {
		env = append(env, "NOTIFY_SOCKET="+notify)
	}
	return supervise.Spec{
		Agent: v.Agent, Image: v.Image.GetId(), Name: v.Agent + " " + v.Image.GetVersion(),
		Record: s.RecordPath(v), Output: s.Root.Output(v.Agent), Dir: s.Root.State(v.Agent),
		Path: s.Path(v, run.Command), Args: run.Args, Env: env,
		StopTimeout: time.Duration(v.run().GetStopTimeoutMs()) * time.Millisecond,
		Notify:      v.run().GetReady().GetNotify(),
		Limits:      v.run().GetLimits(), Sandbox: v.run().GetSandbox(),
	}, nil
}

// Probe returns how the version's health is checked. ready is closed when it says READY=1.
func (s Specs) Probe(v Version, ready <-chan struct{}) (healthcheck.Spec, error) {
	run, err := s.Fill(v)
	if err != nil {
		return healthcheck.Spec{}, err
	}
	r := v.run().GetReady()
	p := healthcheck.Spec{
		Ready: ready, HTTP: run.HTTP, TCP: run.TCP,
		Timeout: time.Duration(r.GetTimeoutMs()) * time.Millisecond,
		Soak:    time.Duration(r.GetSoakMs()) * time.Millisecond,
	}
	if run.Exec != nil {
		p.Exec, err = s.Exec(v, run.Exec)
	}
	return p, err
}

// Exec returns how to run a program of the version's image beside its agent: with the
// agent's directory, environment and rights, but without its notify socket.
func (s Specs) Exec(v Version, x *imagev1.Exec) (*healthcheck.Exec, error) {
	spec, err := s.Spec(v, "")
	if err != nil {
		return nil, err
	}
	path, args, err := spec.Beside(s.Path(v, x.GetCommand()), x.GetArgs())
	return &healthcheck.Exec{Path: path, Args: args, Env: spec.Env, Dir: spec.Dir}, err
}
