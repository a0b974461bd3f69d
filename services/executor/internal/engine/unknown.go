package engine

import (
	"time"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// A document may come from a newer dispatcher. What it asks of an agent is done as a whole
// or refused: an entry, a removal or a request with a field, an enum value or a verb that
// this executor does not know ends as refused, and the others of the document go on. New
// fields of the document itself are passed over; its writer must not rely on them.

// unknownIn names what an action asks for that this executor does not know, or returns "".
func unknownIn(a plan.Action) string {
	var m proto.Message = a.Removal
	if a.Entry != nil {
		m = a.Entry
		if v := a.Entry.GetVerb(); !brings(v) && v != taskv1.Verb_VERB_UNSPECIFIED {
			return "verb: " + v.String() + " is not what an entry asks for"
		}
	}
	if err := strict.Check(m); err != nil {
		return err.Error()
	}
	return ""
}

// brings reports whether a verb is one that an entry asks for.
func brings(v taskv1.Verb) bool {
	switch v {
	case taskv1.Verb_VERB_INSTALL, taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_CONFIGURE:
		return true
	}
	return false
}

// checkKnown refuses a change of which this executor does not know everything.
func (c *change) checkKnown() error {
	if c.rec.Unknown == "" {
		return nil
	}
	return refuse(CodeExecutorTooOld, "executor %s does not know all that the document asks of the agent: %s", c.cfg.Version, c.rec.Unknown)
}

// refuseRequests ends the requests of the document that this executor does not know.
func (e *Engine) refuseRequests() error {
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		for _, q := range e.document.GetRequests() {
			unknown := strict.Check(q)
			if unknown == nil || q.GetTaskId() == "" {
				continue
			}
			if ended, err := tx.Ended(q.GetTaskId()); err != nil {
				return err
			} else if ended != nil {
				continue
			}
			f := failure(taskv1.Step_STEP_CHECK, refuse(CodeExecutorTooOld,
				"executor %s does not know all that the document asks: %v", e.cfg.Version, unknown))
			o := &taskv1.Outcome{FailedStep: f.Step, Code: f.Code, Reason: f.Reason}
			data, err := proto.Marshal(o)
			if err != nil {
				return err
			}
			if err := tx.End(q.GetTaskId(), journal.Ended{State: taskv1.State_STATE_FAILED, Outcome: data, At: time.Now()}); err != nil {
				return err
			}
			if err := tx.Say(e.taskReport(q.GetTaskId(), taskv1.State_STATE_FAILED, o)); err != nil {
				return err
			}
		}
		return nil
	})
}
