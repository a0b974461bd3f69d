package systemd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Supervisor runs the agents below a root as services of systemd.
type Supervisor struct {
	root   layout.Root
	policy supervise.Policy
	direct *supervise.Direct // knows the processes from before systemd was the supervisor
	bus    *bus
	prefix string
	shim   string // a program that calls supervise.Shim, for agents with sockets
}

// ErrNotHere reports that systemd is not this server's init, or the executor is not root; ErrNoBus that systemd is, but
// has no system bus.
var (
	ErrNotHere = errors.New("systemd does not run agents here")
	ErrNoBus   = fmt.Errorf("%w: there is no system bus", ErrNotHere)
)

// New returns the supervisor of the agents below a root. Errors other than ErrNotHere mean that systemd does not
// answer.
func New(root layout.Root, p supervise.Policy, shim string) (*Supervisor, error) {
	if _, err := os.Stat("/run/systemd/system"); err != nil { // as sd_booted(3) looks
		return nil, fmt.Errorf("%w: it is not process 1", ErrNotHere)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root may start services", ErrNotHere)
	}
	if _, err := os.Stat("/run/dbus/system_bus_socket"); err != nil {
		return nil, ErrNoBus
	}
	s := &Supervisor{
		root:   root,
		policy: p,
		direct: supervise.NewDirect(root, p),
		bus:    &bus{},
		prefix: Prefix(root),
		shim:   shim,
	}
	if _, err := s.bus.list(s.prefix); err != nil {
		return nil, err
	}
	return s, nil
}

// Close disconnects from systemd. Services keep running.
func (s *Supervisor) Close() error { return s.bus.close() }

// Unit returns the unit of a slot.
func (s *Supervisor) Unit(spec supervise.Spec, log zerolog.Logger, changed func()) supervise.Unit {
	return s.unit(spec, log, changed)
}

func (s *Supervisor) unit(spec supervise.Spec, log zerolog.Logger, changed func()) *unit {
	return &unit{
		of: s, name: nameOf(s.prefix, spec), spec: spec, log: log, changed: changed,
		before: s.direct.Unit(spec, log, func() {}),
	}
}

// RunOnce runs a program to its end.
func (s *Supervisor) RunOnce(spec supervise.Spec, interrupted <-chan struct{}) error {
	u := s.unit(spec, zerolog.Nop(), func() {})
	u.once = true
	if err := u.Stop(); err != nil {
		return err
	}
	if _, err := u.Start(); err != nil {
		return err
	}
	select {
	case <-u.Exited():
	case <-interrupted:
		return errors.Join(fmt.Errorf("%s did not end in time", spec.Name), u.Stop())
	}
	if how := u.Status().LastEnd; how != supervise.ExitedWell {
		err := fmt.Errorf("%s: %s", spec.Name, how)
		return errors.Join(err, u.Stop())
	}
	return u.Stop()
}

// Members returns the processes of every version of an agent.
func (s *Supervisor) Members(agent string) []int {
	out := s.direct.Members(agent)
	names, _ := s.bus.list(s.prefix) // without an answer no service is known
	for _, name := range names {
		if of, _, ok := slotOf(s.prefix, name); ok && of == agent {
			pids, _ := s.bus.processes(name)
			out = append(out, pids...)
		}
	}
	return out
}

// Slots returns the services of the root, running or not, and the processes from before systemd was the supervisor.
func (s *Supervisor) Slots() ([]supervise.Slot, error) {
	out, err := s.direct.Slots()
	names, e := s.bus.list(s.prefix)
	for _, name := range names {
		if agent, image, ok := slotOf(s.prefix, name); ok {
			out = append(out, supervise.Slot{Name: name, Agent: agent, Image: image})
		}
	}
	return out, errors.Join(err, e)
}

// Notifies returns true: systemd receives READY=1.
func (s *Supervisor) Notifies() bool { return true }

// Clear stops every service of the root, for a supervisor that does not know them.
func (s *Supervisor) Clear() error {
	names, err := s.bus.list(s.prefix)
	for _, name := range names {
		err = errors.Join(err, s.bus.clear(name, supervise.DefaultStopTimeout))
	}
	return err
}

// Check refuses limits and confinements that this server cannot enforce.
func (s *Supervisor) Check(run *imagev1.Run) error {
	b := run.GetSandbox()
	if err := checkCapabilities(b.GetCapabilities()); err != nil {
		return refuse("sandbox.capabilities: %v", err)
	}
	if err := supervise.CheckUser(b.GetUser(), s.root); err != nil {
		return err
	}
	if b.GetReadOnlySystem() {
		for _, path := range b.GetWritable() {
			if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
				return refuse("sandbox.writable names %s, which does not exist", path)
			}
		}
	}
	var hidden []string
	if b.GetNoHomes() {
		hidden = append(hidden, homes...)
	}
	if b.GetPrivateTmp() {
		hidden = append(hidden, temporaries...)
	}
	return s.checkHidden(run, hidden)
}

// The directories that sandbox.no_homes and sandbox.private_tmp hide (systemd.exec(5)).
var (
	homes       = []string{"/home", "/root", "/run/user"}
	temporaries = []string{"/tmp", "/var/tmp"}
)

// checkHidden refuses a sandbox that hides the files that the agent runs from.
func (s *Supervisor) checkHidden(run *imagev1.Run, hidden []string) error {
	needs := []string{string(s.root)}
	if len(run.GetSockets()) > 0 {
		needs = append(needs, s.shim)
	}
	for _, dir := range hidden {
		for _, path := range needs {
			if resolved, err := filepath.EvalSymlinks(path); err == nil && strings.HasPrefix(resolved, dir+"/") {
				return refuse("the sandbox hides %s, which contains %s", dir, path)
			}
		}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.CannotConfine, format, args...)
}
