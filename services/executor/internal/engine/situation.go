package engine

import (
	"context"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// restAfter is how long a change that no task asked for rests after it was tried.
const restAfter = 10 * time.Minute

// situation gathers what a plan needs to know. What the disk says is looked for when the
// plan asks, and so not while the journal is read: a long read keeps its file growing.
func (e *Engine) situation() (plan.Situation, error) {
	s := plan.Situation{Have: map[string]plan.Have{}, Busy: e.busy}
	ended, here := map[string]bool{}, map[string]*journal.Instance{}
	err := e.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		for _, i := range instances {
			s.Have[i.Agent] = plan.Have{InstanceID: i.ID, ImageID: i.Image.GetId(), Configuration: string(i.ConfigurationDigest)}
			here[i.Agent] = i
		}
		for _, id := range taskIDs(e.document) {
			was, err := tx.Ended(id)
			if err != nil {
				return err
			}
			ended[id] = was != nil
		}
		return nil
	})
	s.Intact = func(agent string) bool { return e.intactLately(here[agent]) && e.misconfigured(here[agent]) == nil }
	s.Ended = func(id string) bool { return ended[id] }
	s.Tried = func(a plan.Action) bool {
		at, ok := e.tried[changeID(a)]
		return ok && time.Since(at) < e.restOf(a.Agent())
	}
	return s, err
}

func taskIDs(d *desiredv1.Document) []string {
	var out []string
	for _, en := range d.GetEntries() {
		out = append(out, en.GetTaskId())
	}
	for _, r := range d.GetRemovals() {
		out = append(out, r.GetTaskId())
	}
	for _, q := range d.GetRequests() {
		out = append(out, q.GetTaskId())
	}
	return out
}

// changeID names a change: its task, or what it would bring about.
func changeID(a plan.Action) string {
	if id := a.TaskID(); id != "" {
		return id
	}
	if a.Removal != nil {
		return ident.From("remove", a.Removal.GetInstanceId())
	}
	return ident.From("converge", a.Entry.GetInstanceId(), a.Entry.GetImage().GetId(), string(a.Entry.GetConfigurationDigest()))
}

// begin opens the change that an action asks for, and does it in a goroutine of its own.
func (e *Engine) begin(ctx context.Context, a plan.Action) error {
	rec := e.newChange(a)
	if rec.TaskID == "" {
		e.rest(rec.ID)
	}
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		from, err := tx.Instance(rec.Agent)
		if err != nil {
			return err
		}
		rec.From = from
		if err := tx.PutChange(rec); err != nil || rec.TaskID == "" {
			return err
		}
		return tx.Say(e.taskReport(rec.TaskID, taskv1.State_STATE_RUNNING, nil))
	})
	if err != nil {
		return err
	}
	e.busy[rec.Agent] = true
	e.changes.Go(func() {
		end := changeEnd{rec.Agent, e.run(ctx, rec)}
		select {
		case e.ended <- end:
		case <-ctx.Done():
		}
	})
	return nil
}

// changeEnd is told when a change has ended, or, with an error, when it was left open.
type changeEnd struct {
	agent string
	err   error
}

// rest remembers that a change without a task was tried, and forgets old tries.
func (e *Engine) rest(id string) {
	for old, at := range e.tried {
		if time.Since(at) >= longestRest {
			delete(e.tried, old)
		}
	}
	e.tried[id] = time.Now()
}

func (e *Engine) newChange(a plan.Action) *journal.Change {
	rec := &journal.Change{ID: changeID(a), TaskID: a.TaskID(), Agent: a.Agent(), Labels: e.document.GetLabels(), BeganAt: time.Now()}
	rec.Unknown = unknownIn(a)
	if r := a.Removal; r != nil {
		rec.Verb, rec.InstanceID = taskv1.Verb_VERB_REMOVE, r.GetInstanceId()
		return rec
	}
	en := a.Entry
	rec.Verb, rec.InstanceID, rec.Generation, rec.Tier = en.GetVerb(), en.GetInstanceId(), en.GetGeneration(), en.GetTier()
	if !brings(rec.Verb) {
		rec.Verb = taskv1.Verb_VERB_UPGRADE // without a task; any other is refused by the check
	}
	rec.Needs = plan.Needs(e.document, en)
	rec.Metadata, rec.ConfigurationDigest = en.GetMetadata(), en.GetConfigurationDigest()
	rec.To = journal.Manifest{Manifest: en.GetImage()}
	if rec.To.Manifest == nil {
		rec.To.Manifest = &imagev1.Manifest{} // refused by the check, with a code
	}
	if d := en.GetDeadline(); d != nil {
		rec.Deadline = d.AsTime()
	}
	return rec
}
