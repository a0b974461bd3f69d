package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/listening"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Processes are the units of all agents. They are safe for concurrent use.
type Processes struct {
	Specs
	supervisor supervise.Supervisor
	sockets    *Sockets
	repairs    *Repairs
	changed    func()
	log        zerolog.Logger

	mu    sync.Mutex
	units map[string]map[string]supervise.Unit // by agent and image id
}

// NewProcesses returns processes without a unit. changed is called when a unit's status
// changed by itself; it must not block.
func NewProcesses(
	s Specs, by supervise.Supervisor, sockets *Sockets, repairs *Repairs, changed func(), log zerolog.Logger,
) *Processes {
	return &Processes{
		Specs: s, supervisor: by, sockets: sockets, repairs: repairs, changed: changed, log: log,
		units: map[string]map[string]supervise.Unit{},
	}
}

// Notifies reports whether READY=1 goes to the supervisor.
func (p *Processes) Notifies() bool { return p.supervisor.Notifies() }

// Confines refuses a run whose limits or sandbox the supervisor cannot keep.
func (p *Processes) Confines(run *imagev1.Run) error { return p.supervisor.Check(run) }

// Known returns the unit of an agent's image, or nil.
func (p *Processes) Known(agent, imageID string) supervise.Unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units[agent][imageID]
}

// All returns every unit.
func (p *Processes) All() []supervise.Unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []supervise.Unit
	for _, of := range p.units {
		for _, u := range of {
			out = append(out, u)
		}
	}
	return out
}

// Unit returns the unit of a version. It creates a missing unit.
func (p *Processes) Unit(v Version) (supervise.Unit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.units[v.Agent][v.Image.GetId()]; u != nil {
		return u, nil
	}
	spec, err := p.spec(v, "")
	if err != nil {
		return nil, err
	}
	log := p.log.With().Str(logs.Agent, v.Agent).Str(logs.Version, v.Image.GetVersion()).Logger()
	u := p.supervisor.Unit(spec, log, p.changed)
	if v.Adopted != nil {
		u = p.take(u, spec, *v.Adopted, log)
	}
	if p.units[v.Agent] == nil {
		p.units[v.Agent] = map[string]supervise.Unit{}
	}
	p.units[v.Agent][v.Image.GetId()] = u
	return u, nil
}

// take returns the unit of an adopted process. A service of a server whose init is no longer systemd is a process
// that ended.
func (p *Processes) take(
	below supervise.Unit, s supervise.Spec, is change.Adoption, log zerolog.Logger,
) supervise.Unit {
	if by, ok := p.supervisor.(supervise.Services); ok && is.Service != "" {
		return by.TakeService(s, is, log, p.changed)
	}
	return supervise.Take(below, s, is, p.changed)
}

// spec returns how to run a version, with its sockets and the wait for a repair.
func (p *Processes) spec(v Version, notify string) (supervise.Spec, error) {
	spec, err := p.Spec(v, notify)
	if err != nil {
		return spec, err
	}
	spec.Cause = func() supervise.Cause { return p.cause(v) }
	spec.Hold = func(stop <-chan struct{}) bool { return p.repairs.Hold(v, stop) }
	spec.Sockets, err = p.sockets.handOver(v)
	return spec, err
}

// Prepare returns the unit of a version with the environment that its next start gets.
func (p *Processes) Prepare(v Version, notify string) (supervise.Unit, error) {
	u, err := p.Unit(v)
	if err != nil {
		return nil, err
	}
	spec, err := p.Spec(v, notify)
	if err == nil {
		p.startsOutput(v)
		u.SetEnv(spec.Env)
	}
	return u, err
}

// startsOutput has the output say which version it is of.
func (p *Processes) startsOutput(v Version) {
	if err := supervise.Output(p.Root.Output(v.Agent)).Starts(v.Image.GetVersion()); err != nil {
		p.log.Debug().Err(err).Str(logs.Agent, v.Agent).Msg("version not noted in the output")
	}
}

// Stop ends a version's process and forgets its unit.
func (p *Processes) Stop(v Version) error {
	if !v.Image.IsDaemon() {
		return nil
	}
	u, err := p.Unit(v)
	if err != nil {
		return err
	}
	if err := u.Stop(); err != nil {
		return err
	}
	p.mu.Lock()
	delete(p.units[v.Agent], v.Image.GetId())
	p.mu.Unlock()
	return nil
}

// LetGo forgets a version's unit, and leaves its process as it is.
func (p *Processes) LetGo(v Version) {
	u := p.Known(v.Agent, v.Image.GetId())
	if u == nil {
		return
	}
	u.Leave()
	p.mu.Lock()
	delete(p.units[v.Agent], v.Image.GetId())
	p.mu.Unlock()
	if f, ok := u.(supervise.Forgetter); ok {
		f.Forget()
	}
}

// Keep starts a version's process unless it runs, and restarts it from now on.
func (p *Processes) Keep(v Version) error {
	if !v.Image.IsDaemon() {
		return nil
	}
	u, err := p.Prepare(v, "") // a later start has no notify socket
	if err != nil {
		return err
	}
	start := u.Start
	if p.repairs.Pending(v) {
		start = u.Adopt // Hold starts it when the repair is done, or too late
	}
	adopted, err := start()
	if adopted {
		p.log.Debug().Str(logs.Agent, v.Agent).Msg("agent taken over")
	}
	u.Keep() // also after a failed start: it is retried
	return err
}

// TakeOver takes over a version's process. It does not start one: that would read what may
// not be its own configuration.
func (p *Processes) TakeOver(v Version) error {
	if !v.Image.IsDaemon() {
		return nil
	}
	u, err := p.Unit(v)
	if err != nil {
		return err
	}
	if adopted, err := u.Start(); err != nil || adopted {
		return err
	}
	return p.Stop(v)
}

// RunOnce runs a version to its end, within the time that it has to be ready.
func (p *Processes) RunOnce(ctx context.Context, v Version) error {
	spec, err := p.Spec(v, "")
	if err != nil {
		return err
	}
	p.startsOutput(v)
	ctx, cancel := context.WithTimeout(ctx, v.ReadyWithin())
	defer cancel()
	return p.supervisor.RunOnce(spec, ctx.Done())
}

// cause returns what keeps a version from running now, as far as the executor can know: something else holds the
// address of its health check, its program is missing, or a file is missing that its arguments
// name, which is a guess and is not shown.
func (p *Processes) cause(v Version) supervise.Cause {
	if c := p.portCause(v); c.Gone != nil {
		return c
	}
	run, err := p.Fill(v)
	if err != nil {
		return supervise.Cause{}
	}
	program := p.Path(v, run.Command)
	if missing(program) {
		return supervise.Cause{
			What: program + " is missing", Gone: func() bool { return !missing(program) },
		}
	}
	var files []string
	for _, arg := range run.Args {
		_, value, _ := strings.Cut(arg, "=")
		for _, path := range []string{arg, value} {
			if filepath.IsAbs(path) && missing(path) {
				files = append(files, path)
			}
		}
	}
	if files == nil {
		return supervise.Cause{}
	}
	return supervise.Cause{Gone: func() bool { return !slices.ContainsFunc(files, missing) }}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// portCause returns that something else holds the address of a version's health check, or nothing.
func (p *Processes) portCause(v Version) supervise.Cause {
	ctx := context.Background() // the look-up of the address has a bound
	spec, err := p.Specs.Probe(v, nil)
	if err != nil || spec.Address() == "" {
		return supervise.Cause{}
	}
	for _, at := range resolve(ctx, spec.Address()) {
		h := p.holder(v, at)
		if h == nil {
			continue
		}
		held := listening.At(at)
		return supervise.Cause{
			What: fmt.Sprintf("%s is held by %s", at, h),
			Gone: func() bool { return !slices.Equal(listening.At(at), held) },
		}
	}
	return supervise.Cause{}
}
