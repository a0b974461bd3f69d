package engine

import (
	"os"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// SelfBefore returns the program of the executor's version before the installed one, when it
// is kept and whole; otherwise "".
func SelfBefore(root layout.Root, tx *journal.Tx) (string, error) {
	instances, err := tx.Instances()
	if err != nil {
		return "", err
	}
	kept, err := tx.Kept()
	if err != nil {
		return "", err
	}
	for _, i := range instances {
		of := kept[i.Agent]
		if !i.Image.IsSelf() || len(of) == 0 || of[0].Going || !of[0].Image.IsSelf() {
			continue
		}
		if _, err := imagedir.New(root).Whole(of[0].Image.Digest()); err == nil {
			v := agent.Version{Agent: i.Agent, Image: of[0].Image}
			return agent.Specs{Root: root}.Path(v, of[0].Image.GetRun().GetCommand()), nil
		}
	}
	return "", nil
}

// EndTrial writes down what a trial showed.
func EndTrial(j *journal.Journal, h *HandOver, t TrialResult) error { return steps.EndTrial(j, h, t) }

// mayBegin reports whether an action may begin beside what is under way. A change of the
// executor is alone: the hand-over would interrupt any other.
func (e *Engine) mayBegin(a plan.Action) bool {
	if a.Entry.GetImage().GetKind() != agentv1.Kind_KIND_SELF {
		return !e.busy[e.alone]
	}
	if len(e.busy) > 0 {
		return false
	}
	e.alone = a.Agent()
	return true
}

// leaves reports whether another program is to take this process's place.
func (e *Engine) leaves() bool {
	select {
	case err := <-e.leaveFor:
		if _, ok := err.(*Become); !ok || !e.dead() { // a dead server needs no other program
			e.leaving = err
		}
	default:
	}
	return e.leaving != nil
}

// leave asks the loop to end for another program. A change calls it before it ends.
func (e *Engine) leave(err error) {
	select {
	case e.leaveFor <- err:
	default: // changes of the executor are alone
	}
}

// becomeInstalled asks for another program when a change of the executor ended and this
// process is not the program that the inventory names.
func becomeInstalled(self Self, s agent.Specs, leave func(error), r *steps.Run) error {
	if self == nil || !r.SelfInvolved() {
		return nil
	}
	now, err := r.Journal.Instance(r.Agent)
	if err != nil {
		return err
	}
	program := ""
	if now != nil {
		program = s.Program(agent.Installed(now))
	}
	if !self.Runs(program) && self.Why() == "" { // a program that did not start is not tried again
		leave(&Become{Program: program})
	}
	return nil
}

// selfCheck returns what reports whether this process is the program that the inventory names.
func selfCheck(cfg Config, s agent.Specs) func(*change.Instance, *reportv1.Found) bool {
	return func(i *change.Instance, f *reportv1.Found) bool {
		if cfg.Trial {
			f.Pid = uint32(os.Getppid()) // the old executor waits there, as healthy as it was
			return true
		}
		if cfg.Self == nil || !cfg.Self.Runs(s.Program(agent.Installed(i))) {
			f.Code, f.Reason = code.NotRunning, "it does not run: "+steps.WhyNotSelf(cfg.Self)
			return false
		}
		f.Pid, f.StartedAt = uint32(os.Getpid()), timestamppb.New(cfg.Self.StartedAt())
		return true
	}
}
