package engine

import (
	"cmp"
	"os"
	"path/filepath"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/variables"
)

// side is one version of an agent: the new one or the old one.
type side struct {
	agent            string
	image            *imagev1.Manifest
	labels, metadata map[string]string
	config           string // where its configuration is, when that is not where the link leads
}

func (c *change) newSide() side {
	return side{agent: c.rec.Agent, image: c.rec.To.Manifest, labels: c.rec.Labels, metadata: c.rec.Metadata}
}

func sideOf(i *journal.Instance) side {
	return side{agent: i.Agent, image: i.Image.Manifest, labels: i.Labels, metadata: i.Metadata}
}

// facts gives what the variables of a side stand for.
func (e *Engine) facts(s side) variables.Facts {
	return variables.Facts{
		Agent: s.agent, Version: s.image.GetVersion(), Server: e.cfg.ServerID, Labels: s.labels, Metadata: s.metadata,
		State: e.cfg.Root.State(s.agent), Image: e.cfg.Root.Image(s.image.GetBlob().GetDigest()),
		Config: cmp.Or(s.config, e.cfg.Root.Config(s.agent)),
	}
}

// fill fills in the variables of a side's run.
func (e *Engine) fill(s side) (variables.Run, error) {
	return e.facts(s).Values().Fill(s.image.GetRun())
}

// spec says how to run a side. notify is the socket's path, or empty.
func (e *Engine) spec(s side, notify string) (supervise.Spec, error) {
	run, err := e.fill(s)
	if err != nil {
		return supervise.Spec{}, err
	}
	env := []string{
		"PATH=" + searchPath(), "GARRISON_AGENT=" + s.agent, "GARRISON_VERSION=" + s.image.GetVersion(),
		"GARRISON_SERVER=" + e.cfg.ServerID, "GARRISON_STATE=" + e.cfg.Root.State(s.agent),
		"GARRISON_IMAGE=" + e.cfg.Root.Image(s.image.GetBlob().GetDigest()),
	}
	if len(s.image.GetRun().GetConfigs()) > 0 {
		env = append(env, "GARRISON_CONFIG="+e.facts(s).Config)
	}
	env = append(env, run.Env...)
	if notify != "" {
		env = append(env, "NOTIFY_SOCKET="+notify)
	}
	spec := supervise.Spec{
		Agent: s.agent, Image: s.image.GetId(), Name: s.agent + " " + s.image.GetVersion(),
		Record: e.recordPath(s), Output: e.cfg.Root.Output(s.agent), Dir: e.cfg.Root.State(s.agent),
		Path: e.program(s.image, run.Command), Args: run.Args, Env: env,
		StopTimeout: time.Duration(s.image.GetRun().GetStopTimeoutMs()) * time.Millisecond,
		Notify:      s.image.GetRun().GetReady().GetNotify(),
		Limits:      s.image.GetRun().GetLimits(), Sandbox: s.image.GetRun().GetSandbox(),
		Hold: func(stop <-chan struct{}) bool { return e.holdStart(s, stop) },
	}
	if len(run.Sockets) > 0 && s.image.GetKind() == agentv1.Kind_KIND_DAEMON {
		spec.Sockets = e.socketFiles(s.agent, run.Sockets)
	}
	return spec, nil
}

// recordPath is the slot's record: one for each version, so that two can run in an overlap.
func (e *Engine) recordPath(s side) string {
	return filepath.Join(e.cfg.Root.Run(s.agent), supervise.RecordName(s.image.GetId()))
}

func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// unitOf gives the unit of a side, and makes it when there is none.
func (e *Engine) unitOf(s side) (supervise.Unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u := e.units[s.agent][s.image.GetId()]; u != nil {
		return u, nil
	}
	spec, err := e.spec(s, "")
	if err != nil {
		return nil, err
	}
	log := e.cfg.Log.With().Str(logs.Agent, s.agent).Str(logs.Version, s.image.GetVersion()).Logger()
	u := e.cfg.Supervisor.Unit(spec, log, e.stir)
	if e.units[s.agent] == nil {
		e.units[s.agent] = map[string]supervise.Unit{}
	}
	e.units[s.agent][s.image.GetId()] = u
	return u, nil
}

// stopSide ends a side's process and forgets its unit.
func (e *Engine) stopSide(s side) error {
	if s.image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	u, err := e.unitOf(s)
	if err != nil {
		return err
	}
	if err := u.Stop(); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.units[s.agent], s.image.GetId())
	e.mu.Unlock()
	return nil
}

// keepSide starts a side's process unless it runs, and restarts it from now on.
func (e *Engine) keepSide(s side) error {
	if s.image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	u, err := e.unitOf(s)
	if err != nil {
		return err
	}
	spec, err := e.spec(s, "") // a later start has no socket to say READY=1 on
	if err != nil {
		return err
	}
	u.SetEnv(spec.Env)
	start := u.Start
	if e.waitsForRepair(s) {
		start = u.Adopt // its keeper starts it when there is a whole copy, or none can be had
	}
	adopted, err := start()
	if adopted {
		e.cfg.Log.Debug().Str(logs.Agent, s.agent).Msg("agent taken over")
	}
	u.Keep() // also when it could not be started: it is tried again
	return err
}

// knownUnit gives a unit that was made before, or nil.
func (e *Engine) knownUnit(agent, imageID string) supervise.Unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.units[agent][imageID]
}

func (e *Engine) allUnits() []supervise.Unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []supervise.Unit
	for _, of := range e.units {
		for _, u := range of {
			out = append(out, u)
		}
	}
	return out
}

// probeSpec says how a side shows that it works. ready is closed when it said READY=1, or nil.
func (e *Engine) probeSpec(s side, ready <-chan struct{}) (probe.Spec, error) {
	run, err := e.fill(s)
	if err != nil {
		return probe.Spec{}, err
	}
	r := s.image.GetRun().GetReady()
	p := probe.Spec{
		Ready: ready, HTTP: run.HTTP, TCP: run.TCP,
		Timeout: time.Duration(r.GetTimeoutMs()) * time.Millisecond,
		Soak:    time.Duration(r.GetSoakMs()) * time.Millisecond,
	}
	if run.Exec != nil {
		p.Exec, err = e.execSpec(s, run.Exec)
	}
	return p, err
}

// execSpec says how to run a program of a side's image beside its agent: where and with
// the environment and rights that the agent has, but for the socket to say READY=1 on.
func (e *Engine) execSpec(s side, x *imagev1.Exec) (*probe.Exec, error) {
	spec, err := e.spec(s, "")
	if err != nil {
		return nil, err
	}
	path, args, err := spec.Beside(e.program(s.image, x.GetCommand()), x.GetArgs())
	return &probe.Exec{Path: path, Args: args, Env: spec.Env, Dir: spec.Dir}, err
}

// notifyPath is where a side says READY=1.
func (e *Engine) notifyPath(s side) string {
	return filepath.Join(e.cfg.Root.Run(s.agent), "notify-"+ident.Short(s.image.GetId()))
}
