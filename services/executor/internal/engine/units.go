package engine

import (
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
	agent  string
	image  *imagev1.Manifest
	labels map[string]string
}

func (c *change) newSide() side { return side{c.rec.Agent, c.rec.To.Manifest, c.rec.Labels} }

func sideOf(i *journal.Instance) side { return side{i.Agent, i.Image.Manifest, i.Labels} }

// fill fills in the variables of an image's run.
func (e *Engine) fill(agent string, m *imagev1.Manifest, labels map[string]string) (variables.Run, error) {
	return variables.Facts{
		Agent: agent, Version: m.GetVersion(), Server: e.cfg.ServerID, Labels: labels,
		State: e.cfg.Root.State(agent), Image: e.cfg.Root.Image(m.GetBlob().GetDigest()),
	}.Values().Fill(m.GetRun())
}

// spec says how to run a side. notify is the socket's path, or empty.
func (e *Engine) spec(s side, notify string) (supervise.Spec, error) {
	run, err := e.fill(s.agent, s.image, s.labels)
	if err != nil {
		return supervise.Spec{}, err
	}
	env := []string{
		"PATH=" + searchPath(), "GARRISON_AGENT=" + s.agent, "GARRISON_VERSION=" + s.image.GetVersion(),
		"GARRISON_SERVER=" + e.cfg.ServerID, "GARRISON_STATE=" + e.cfg.Root.State(s.agent),
		"GARRISON_IMAGE=" + e.cfg.Root.Image(s.image.GetBlob().GetDigest()),
	}
	env = append(env, run.Env...)
	if notify != "" {
		env = append(env, "NOTIFY_SOCKET="+notify)
	}
	spec := supervise.Spec{
		Name:   s.agent + " " + s.image.GetVersion(),
		Record: e.recordPath(s), Output: e.cfg.Root.Output(s.agent), Dir: e.cfg.Root.State(s.agent),
		Path: e.program(s.image, run.Command), Args: run.Args, Env: env,
		StopTimeout: time.Duration(s.image.GetRun().GetStopTimeoutMs()) * time.Millisecond,
	}
	if len(run.Sockets) > 0 && s.image.GetKind() == agentv1.Kind_KIND_DAEMON {
		spec.Sockets = e.socketFiles(s.agent, run.Sockets)
	}
	return spec, nil
}

// recordPath is the slot's record: one for each version, so that two can run in an overlap.
func (e *Engine) recordPath(s side) string {
	return filepath.Join(e.cfg.Root.Run(s.agent), "process-"+s.image.GetId()+".json")
}

func searchPath() string {
	if p := os.Getenv("PATH"); p != "" {
		return p
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// unitOf gives the unit of a side, and makes it when there is none.
func (e *Engine) unitOf(s side) (*supervise.Unit, error) {
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
	u := supervise.NewUnit(spec, e.cfg.Policy, log, e.stir)
	if e.units[s.agent] == nil {
		e.units[s.agent] = map[string]*supervise.Unit{}
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
	adopted, err := u.Start()
	if adopted {
		e.cfg.Log.Debug().Str(logs.Agent, s.agent).Msg("agent taken over")
	}
	u.Keep() // also when it could not be started: it is tried again
	return err
}

// knownUnit gives a unit that was made before, or nil.
func (e *Engine) knownUnit(agent, imageID string) *supervise.Unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.units[agent][imageID]
}

func (e *Engine) allUnits() []*supervise.Unit {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*supervise.Unit
	for _, of := range e.units {
		for _, u := range of {
			out = append(out, u)
		}
	}
	return out
}

// probeSpec says how a side shows that it works.
func (e *Engine) probeSpec(s side, n *probe.Notify) (probe.Spec, error) {
	run, err := e.fill(s.agent, s.image, s.labels)
	r := s.image.GetRun().GetReady()
	return probe.Spec{
		Notify: n, HTTP: run.HTTP, TCP: run.TCP,
		Timeout: time.Duration(r.GetTimeoutMs()) * time.Millisecond,
		Soak:    time.Duration(r.GetSoakMs()) * time.Millisecond,
	}, err
}

// notifyPath is where a side says READY=1.
func (e *Engine) notifyPath(s side) string {
	return filepath.Join(e.cfg.Root.Run(s.agent), "notify-"+ident.Short(s.image.GetId()))
}
