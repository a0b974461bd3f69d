package engine

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// situation returns what a plan needs to know. The disk is read when the plan asks, and not
// within a transaction: a long read keeps the journal's file growing.
func (e *Engine) situation() (plan.Situation, error) {
	s := plan.Situation{Have: map[string]plan.Have{}, Busy: e.busy}
	ended, here, bad := map[string]bool{}, map[string]*change.Instance{}, map[string]string{}
	err := e.cfg.Journal.Read(func(tx *journal.Tx) error {
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		for _, i := range instances {
			s.Have[i.Agent] = plan.Have{
				InstanceID: i.ID, ImageID: i.Image.GetId(), Configuration: string(i.ConfigurationDigest),
			}
			here[i.Agent] = i
		}
		for _, en := range e.document.GetEntries() {
			bad[en.GetAgent()] = tx.Note(noteBad + en.GetAgent())
		}
		for _, id := range plan.TaskIDs(e.document) {
			was, err := tx.Ended(id)
			if err != nil {
				return err
			}
			ended[id] = was != nil
		}
		return nil
	})
	s.Intact = func(agent string) bool { // a repair would replace a process that is not Garrison's: a task must ask
		return here[agent].Foreign() || !e.healDue(agent, !e.rooms.observe.Intact(here[agent])) ||
			e.rooms.repairs.Over(agent)
	}
	s.Ended = func(id string) bool { return ended[id] }
	s.Tried = func(a plan.Action) bool {
		id := changeID(a)
		failed := a.Entry != nil && bad[a.Agent()] == id
		return failed || e.rooms.repairs.Rests(id)
	}
	return s, err
}

// changeID names a change: by its task, or by what it would bring about.
func changeID(a plan.Action) string {
	if id := a.TaskID(); id != "" {
		return id
	}
	if a.Removal != nil {
		return ident.From("remove", a.Removal.GetInstanceId())
	}
	return convergenceID(a.Entry.GetInstanceId(), a.Entry.GetImage().GetId(), a.Entry.GetConfigurationDigest())
}

// convergenceID names a change without a task that brings an instance to an image and a configuration.
func convergenceID(instance, image string, configuration []byte) string {
	return ident.From("converge", instance, image, string(configuration))
}

// changeEnd says that a change has ended, or, with an error, that it was left open.
type changeEnd struct {
	agent string
	err   error
}

// begin opens the change that an action asks for, and does it in a goroutine of its own.
func (e *Engine) begin(ctx context.Context, a plan.Action) error {
	rec := newRecord(e.document, a)
	if rec.TaskID == "" {
		e.rooms.repairs.Began(rec.ID)
	}
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		from, err := tx.Instance(rec.Agent)
		if err != nil {
			return err
		}
		rec.From = from
		if rec.Candidate != "" && rec.From == nil {
			rec.Verb = taskv1.Verb_VERB_ADOPT // also without a task: it must never become an install
		}
		recallInterruptions(tx, rec)
		return tx.PutChange(rec)
	})
	if err != nil {
		return err
	}
	e.busy[rec.Agent] = true
	r := e.driver.newRun(rec, false)
	r.Log.Info().Str("verb", rec.Verb.String()).Msg("change begun")
	e.running.Go(func() {
		end := changeEnd{rec.Agent, e.driver.do(ctx, r, change.Checking)}
		select {
		case e.ended <- end:
		case <-ctx.Done():
		}
	})
	return nil
}

// newRecord returns the change that an action of a document asks for.
func newRecord(d *desiredv1.Document, a plan.Action) *change.Record {
	rec := &change.Record{
		ID: changeID(a), TaskID: a.TaskID(), Agent: a.Agent(), Labels: d.GetLabels(),
		BeganAt: time.Now(), Unknown: unknownIn(a),
	}
	if r := a.Removal; r != nil {
		rec.Verb, rec.InstanceID = taskv1.Verb_VERB_REMOVE, r.GetInstanceId()
		if r.GetRelease() {
			rec.Verb = taskv1.Verb_VERB_RELEASE
		}
		return rec
	}
	en := a.Entry
	rec.Verb, rec.InstanceID = en.GetVerb(), en.GetInstanceId()
	rec.Generation, rec.Tier = en.GetGeneration(), en.GetTier()
	if !brings(rec.Verb) {
		rec.Verb = taskv1.Verb_VERB_UPGRADE // without a task; any other is refused by the check
	}
	rec.Needs = plan.Needs(d, en)
	rec.Metadata, rec.ConfigurationDigest = en.GetMetadata(), en.GetConfigurationDigest()
	rec.Secrets, rec.Candidate = en.GetSecrets(), en.GetAdoptCandidate()
	rec.To = change.Manifest{Manifest: en.GetImage()}
	if rec.To.Manifest == nil {
		rec.To.Manifest = &imagev1.Manifest{} // refused by the check, with a code
	}
	if at := en.GetDeadline(); at != nil {
		rec.Deadline = at.AsTime()
	}
	return rec
}

// A document may come from a newer dispatcher. What it asks of an agent is done as a whole or
// refused: an entry, a removal or a request with a field, an enum value or a verb that this
// executor does not know is refused, and the others of the document go on. New fields of the
// document itself are ignored; its writer must not rely on them.

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
	case taskv1.Verb_VERB_INSTALL, taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_CONFIGURE, taskv1.Verb_VERB_ADOPT,
		taskv1.Verb_VERB_RESTART:
		return true
	}
	return false
}
