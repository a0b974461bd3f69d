package steps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentnoun "github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// An adoption is an install whose process runs already: the image is brought beside it and the link is led to the
// image, but the process is neither started nor signalled. Giving up leaves it as it is.

// CheckAdoption refuses a candidate that cannot become the agent, and notes which process it is.
type CheckAdoption struct {
	Root    layout.Root
	Journal *journal.Journal
	Members func(agent string) []int // the processes of an installed agent
	// Services are those of this server; nil where the supervisor cannot take one over.
	Services supervise.Services
}

// Do implements Step.
func (s CheckAdoption) Do(_ context.Context, r *Run) error {
	switch {
	case r.From != nil:
		return refuse(code.AlreadyInstalled, "agent %s is installed already, as instance %s", r.Agent, r.From.ID)
	case !r.To.IsDaemon():
		return refuse(code.NotAdoptable, "the image is of kind %s, and no process that runs can be that",
			agentnoun.KindWord(r.To.GetKind()))
	case len(r.To.GetRun().GetSockets()) > 0:
		return refuse(code.NotAdoptable, "the image names sockets, which Garrison opens itself")
	}
	p, service, err := s.find(r.Candidate)
	if err != nil {
		return err
	}
	if err := s.free(p); err != nil {
		return err
	}
	r.Adoption = &change.Adoption{
		Candidate: r.Candidate, Pid: p.Pid, Start: p.Start, Boot: proctree.BootID(), StartedAt: p.StartedAt,
		Exe: p.Exe, Sockets: p.Sockets[:min(len(p.Sockets), maxSockets)], At: time.Now(),
		Service: p.Service, Enabled: service.Enabled,
	}
	return r.Save()
}

// find returns the process of a candidate, and the service that is to be adopted with it.
func (s CheckAdoption) find(candidate string) (p detect.Process, is supervise.Service, err error) {
	service, isUnit := strings.CutPrefix(candidate, "unit/")
	var mainOf func(string) int
	switch {
	case isUnit && s.Services == nil:
		return p, is, refuse(code.NotAdoptable, "the executor does not run agents by systemd, so %s cannot be adopted",
			service)
	case isUnit:
		if is, err = s.Services.Service(service); err != nil {
			return p, is, err
		}
		mainOf = func(string) int { return is.Pid }
	}
	p, ok := detect.Find(candidate, mainOf)
	switch {
	case !ok && isUnit:
		return p, is, refuse(code.CandidateGone, "%s has no main process", service)
	case !ok:
		return p, is, refuse(code.CandidateGone, "there is no longer a process %s", candidate)
	case isUnit:
		err = checkService(is, service)
	default:
		err = checkProcess(p)
	}
	p.Service = is.Name
	return p, is, err
}

// checkService refuses a service that would run beside its successor, or that no rollback could start.
func checkService(is supervise.Service, name string) error {
	switch {
	case is.Transient:
		return refuse(code.NotAdoptable, "%s is transient: once it is stopped, nothing can start it again", name)
	case len(is.TriggeredBy) > 0:
		return refuse(code.NotAdoptable, "%s is started by %s, which would start it again after it was replaced", name,
			strings.Join(is.TriggeredBy, ", "))
	case is.Returns != "":
		return refuse(code.NotAdoptable, "%s would start again after it was replaced: %s", name, is.Returns)
	}
	return nil
}

// checkProcess refuses a process that systemd starts again.
func checkProcess(p detect.Process) error {
	switch {
	case detect.ByUserManager(p.Unit):
		return refuse(code.NotAdoptable, "process %d belongs to a service of a user (%s), whose systemd may start it "+
			"again: only services of the system can be adopted", p.Pid, p.Unit)
	case strings.HasSuffix(p.Unit, ".service") && p.Unit != "init.service":
		return refuse(code.NotAdoptable, "process %d belongs to %s, which systemd starts again: adopt unit/%s", p.Pid,
			p.Unit, p.Unit)
	}
	return nil
}

// maxSockets is how many sockets of an adopted process are noted.
const maxSockets = 16

// free refuses a process that is Garrison's already.
func (s CheckAdoption) free(p detect.Process) error {
	in, err := s.Journal.Inventory()
	if err != nil {
		return err
	}
	managed := p.Pid == os.Getpid() || strings.HasPrefix(p.Exe, string(s.Root)+"/")
	for _, i := range in.Instances {
		is := i.Adopted != nil && i.Adopted.Pid == p.Pid && supervise.Lives(i.Adopted) ||
			i.Adopted != nil && p.Unit != "" && i.Adopted.Service == p.Unit
		for _, pid := range s.Members(i.Agent) {
			is = is || pid == p.Pid
		}
		if is {
			return refuse(code.CandidateManaged, "process %d is agent %s already", p.Pid, i.Agent)
		}
	}
	if managed {
		return refuse(code.CandidateManaged, "process %d is Garrison's own: it runs %s", p.Pid, p.Exe)
	}
	return nil
}

// CompareProgram compares what the process runs with the program of the image.
type CompareProgram struct{ Specs agent.Specs }

// Do implements Step.
func (s CompareProgram) Do(ctx context.Context, r *Run) error {
	runs, err := supervise.Digest(ctx, filepath.Join("/proc", strconv.Itoa(r.Adoption.Pid), "exe"))
	if !supervise.Lives(r.Adoption) { // the kernel may have shown another process
		return refuse(code.CandidateGone, "process %d of %s ended", r.Adoption.Pid, r.Candidate)
	}
	if err != nil {
		return fmt.Errorf("read the program of process %d: %w", r.Adoption.Pid, err)
	}
	image, err := supervise.Digest(ctx, s.Specs.Program(agent.Coming(r.Record)))
	if err != nil {
		return fmt.Errorf("read the program of the image: %w", err)
	}
	r.Adoption.ExeSHA256, r.Adoption.Same = runs, bytes.Equal(runs, image)
	return r.Save()
}

// TakeProcess makes the candidate the agent's process.
type TakeProcess struct{ Processes *agent.Processes }

// Do implements Step.
func (s TakeProcess) Do(_ context.Context, r *Run) error {
	if !supervise.Lives(r.Adoption) {
		return refuse(code.CandidateGone, "process %d of %s ended", r.Adoption.Pid, r.Candidate)
	}
	u, err := s.Processes.Unit(agent.Coming(r.Record))
	if err != nil {
		return err
	}
	adopted, err := u.Adopt()
	if err == nil && !adopted {
		err = refuse(code.CandidateGone, "process %d of %s ended", r.Adoption.Pid, r.Candidate)
	}
	if err != nil {
		return err
	}
	r.unit = u
	r.Point("process taken")
	return nil
}

// LetGo ends the watching of an adopted process, and leaves it as it is.
type LetGo struct{ Processes *agent.Processes }

// Do implements Step.
func (s LetGo) Do(_ context.Context, r *Run) error {
	if !installed(r.Record) {
		return nil
	}
	s.Processes.LetGo(agent.Installed(r.From))
	r.Point("let go")
	return nil
}

// GiveUpAdoption takes away what an adoption made, and leaves the process as it is.
type GiveUpAdoption struct {
	Processes *agent.Processes
	Restore   RestoreOld
}

// Do implements Step.
func (s GiveUpAdoption) Do(_ context.Context, r *Run) error {
	r.Release()
	s.Processes.LetGo(agent.Coming(r.Record))
	return s.Restore.removeFirst(r)
}

// CheckRelease refuses to release an agent whose process is Garrison's own.
type CheckRelease struct{}

// Do implements Step.
func (CheckRelease) Do(_ context.Context, r *Run) error {
	if !installed(r.Record) || len(r.Removed) > 0 { // gone already, or checked before a crash
		return nil
	}
	if is := r.From.Adopted; !supervise.Lives(is) && is.ServiceName() == "" {
		return refuse(code.NotAdopted, "agent %s no longer runs as an adopted process", r.Agent)
	}
	return nil
}
