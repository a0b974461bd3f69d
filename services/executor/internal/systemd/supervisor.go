// Package systemd runs the processes of agents as transient services of systemd, behind the interface
// supervise.Supervisor. It talks to systemd over the system bus.
//
// A slot (one version of one agent) is one service, named from a hash of the executor's root, the agent and the image.
// It exists in systemd's memory alone: nothing is written to the disk, nothing is enabled, and a reboot leaves nothing.
// systemd is the source of what runs; this package keeps no record of its own.
//
// Guarantees:
//
//  1. A slot has at most one process: a service's name is unique in systemd, and a process that supervise.Direct
//     started for the slot is ended before.
//  2. systemd restarts a process that ends, also while no executor runs. After too many ends it stops doing so,
//     and the executor does it with the waits of the policy.
//  3. An end is noticed even when systemd has started the next process already: an invocation has an id, and a file
//     descriptor of the process shows its end.
//  4. systemd receives and remembers READY=1: an executor that adopts a service knows whether it was ready.
//  5. An image's limits and sandbox hold, or it does not run: each start by the executor reads them from the kernel.
//     The word of systemd, or its version, is not enough: it starts a service also where the kernel or a container
//     denies it a controller or a namespace.
//  6. An agent's listening sockets stay open in its service from one process to the next, also while no executor runs.
//  7. Stop ends everything that a service started, and leaves nothing of it in systemd.
//
// It calls the bus with godbus: coreos/go-systemd has neither RefUnit nor GetUnitProcesses, and hides the connection to
// which a reference belongs.
package systemd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

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

const (
	slice    = "garrison.slice"
	suffix   = ".service"
	imageLen = 12 // of an image's id: distinguishes the versions of one agent on one server
	rootLen  = 12 // of the hash of a root: distinguishes the executors on one server
)

// Prefix returns the prefix of the names of a root's services. No two executors on one server share it.
func Prefix(root layout.Root) string { return "garrison-" + short(string(root), rootLen) + "-" }

// nameOf names the service of a slot. A program that runs beside the slot's process, such as a check, has another
// record and so another name.
func nameOf(prefix string, s supervise.Spec) string {
	name := prefix + s.Agent + "-" + strings.ReplaceAll(s.Image, "-", "")[:imageLen]
	if base := filepath.Base(s.Record); base != supervise.RecordName(s.Image) {
		name += "." + short(base, 8) // no agent's name holds a dot
	}
	return name + suffix
}

// slotOf returns the agent and the start of the image's id of a service's name.
func slotOf(prefix, name string) (agent, image string, ok bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	rest, service := strings.CutSuffix(rest, suffix)
	rest, _, _ = strings.Cut(rest, ".")
	dash := strings.LastIndexByte(rest, '-')
	if !ours || !service || dash < 1 {
		return "", "", false
	}
	return rest[:dash], rest[dash+1:], true
}

func short(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}
