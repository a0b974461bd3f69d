package view

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// mostSuspects is how many builds that failed the view keeps; the one that failed first goes.
	mostSuspects = 1000
	// MostFailed is how many servers of a suspect are kept.
	MostFailed = 100
	// soonAfter is for how long after a change an agent that becomes unhealthy counts against what was brought.
	soonAfter = 10 * time.Minute
)

// faults is the builds that failed: those that are blocked, and those that are suspected.
type faults struct {
	*tables
	*fleet
	*origins
	*orders
}

// applyBlock folds a fact about a block. The failures before it are counted no longer.
func (v *faults) applyBlock(f ledger.Fact) bool {
	next, fit := block.Apply(row(v.blocks, f.Key), f)
	if fit {
		v.suspects.Forget(f.Key)
	}
	return own(v.blocks, f, next, fit)
}

// judgeTask folds the end of a task: what it was to bring failed on the server, or did not. i is the instance after it.
func (v *faults) judgeTask(t *taskv1.Task, i *instancev1.Instance, f ledger.Fact) {
	build := v.builtBy(t, i)
	switch {
	case build == nil:
	case t.State == taskv1.State_STATE_SUCCEEDED && failedSince(i, f.At), ofTheBuild(t):
		v.blame(build, t.ServerId, t.IntentId, f)
	case t.State == taskv1.State_STATE_SUCCEEDED:
		v.acquit(build, t.ServerId)
	}
}

// judgeObservation folds an observation: an agent that is not healthy soon after its change counts against what came,
// and no longer once it is healthy with that. A process that keeps ending is not, however often it is started.
func (v *faults) judgeObservation(i *instancev1.Instance, f ledger.Fact) {
	failed := failedSince(i, f.At)
	recovered := v.suspects.Len() > 0 && i.State == instancev1.State_STATE_CONVERGED &&
		i.Health == instancev1.Health_HEALTH_GOOD
	if i.GetTaskState() != taskv1.State_STATE_SUCCEEDED || !failed && !recovered || v.undoes(i.IntentId) {
		return
	}
	build := v.buildOf(change{
		i.ServerId, i.Agent, i.Before.GetImage(), i.Wanted, i.Configuration, i.Before, nil,
	})
	switch {
	case build == nil:
	case failed:
		v.blame(build, i.ServerId, i.IntentId, f)
	case row(v.suspects, block.ID(build)).GetRolloutId() == "": // it is blocked for the rollout that it halted
		v.acquit(build, i.ServerId)
	}
}

// builtBy returns what a task was to bring; nil for a removal, for an undo, which brings what ran before, and for an
// adoption or a restart, which take what runs.
func (v *faults) builtBy(t *taskv1.Task, i *instancev1.Instance) *blockv1.Build {
	if t.Verb == taskv1.Verb_VERB_ADOPT || t.Verb == taskv1.Verb_VERB_RESTART || v.undoes(t.IntentId) {
		return nil
	}
	c := change{server: t.ServerId, agent: t.Agent, from: t.From, to: t.To}
	switch {
	case i == nil || i.Id != t.InstanceId:
	case i.Generation == t.Generation:
		c.configuration, c.before, c.runs = i.Configuration, i.Before, i.ObservedConfigurationDigest
	case i.LastBegun != nil && i.LastBegun.TaskGeneration == t.Generation: // something else was asked for since
		c.configuration, c.before = i.LastBegun.Configuration, i.LastBegun.Before
	}
	return v.buildOf(c)
}

// undoes reports whether an intent undoes another one, or is part of a rollout that undoes another one.
func (v *faults) undoes(intent string) bool {
	in := row(v.intents, intent).GetIntent()
	return in.GetUndo() != nil || row(v.rollouts, in.GetSource().GetRolloutId()).GetUndoes() != ""
}

// change is a change of an agent on a server, with what the instance was before.
type change struct {
	server, agent string
	from, to      *imagev1.Ref
	configuration *instancev1.Configuration
	before        *instancev1.Before
	runs          []byte // the digest of the configuration that was found; nil when that is not known
}

// reconfigures reports whether the change brings another configuration than there was. What was wanted before may have
// failed too, and is the same then although it does not run.
func (c change) reconfigures() bool {
	ran := c.before.GetConfiguration().GetDigest()
	if c.before.GetSame() && ran == nil {
		return len(c.runs) > 0 && !bytes.Equal(c.runs, c.configuration.GetDigest())
	}
	return !bytes.Equal(ran, c.configuration.GetDigest())
}

// buildOf returns what a change brings: the image when it changes, the configuration when that does, or both.
func (v *faults) buildOf(c change) *blockv1.Build {
	if c.to == nil {
		return nil
	}
	return block.Change{
		Agent: v.shared.text(c.agent), Image: v.shared.ref(c.to),
		Platform:      row(v.servers, c.server).GetSysinfo().GetPlatform(),
		Configuration: c.configuration.GetDigest(), NewImage: !instance.SameImage(c.from, c.to),
		Reconfigured: c.reconfigures(),
	}.Blamed()
}

// ofTheBuild reports whether a task failed for a reason of what it was to bring, rather than of the server or the way.
func ofTheBuild(t *taskv1.Task) bool {
	if t.State != taskv1.State_STATE_FAILED && t.State != taskv1.State_STATE_UNDONE {
		return false
	}
	switch t.GetOutcome().GetFailedStep() {
	case taskv1.Step_STEP_REHEARSE, taskv1.Step_STEP_SWITCH, taskv1.Step_STEP_PROVE:
		return !code.OfServer(t.Outcome.Code)
	case taskv1.Step_STEP_COMMIT: // a program of the executor that does not start after its trial
		return code.EndsByBuild(t.Outcome.Code)
	}
	return false
}

// failedSince reports whether an agent was observed not to work since its last change, which was not long ago. What is
// missing or was damaged on the disk is no fault of the build.
func failedSince(i *instancev1.Instance, now time.Time) bool {
	if i.GetWanted() == nil || i.Health != instancev1.Health_HEALTH_BAD || !instance.Shown(i) ||
		i.ChangedAt == nil || now.Sub(i.ChangedAt.AsTime()) > soonAfter {
		return false
	}
	return code.OfBuild(i.ObservedCode)
}

// suspect notes that a build failed on a server, to which an intent brought it, unless it is blocked.
func (v *faults) suspect(b *blockv1.Build, server, intent string, f ledger.Fact) {
	id := block.ID(b)
	if row(v.blocks, id) != nil {
		return
	}
	s := row(v.suspects, id)
	if s == nil {
		v.dropOldSuspect()
		s = &blockv1.Suspect{Build: b}
	}
	at, known := slices.BinarySearch(s.ServerIds, server)
	if !known && len(s.ServerIds) < MostFailed {
		s.ServerIds = slices.Insert(s.ServerIds, at, strings.Clone(server))
	}
	s.LastAt = timestamppb.New(f.At)
	if r := v.haltedBefore(intent, server); r != "" {
		s.RolloutId = r
	}
	v.countRuns(s)
	v.suspects.Put(id, s, f.Sequence)
}

// haltedBefore returns the halted rollout of an intent when a server broke in it, or "". A server that was silent is
// broken before its report says what failed there.
func (v *faults) haltedBefore(intent, server string) string {
	r := row(v.rollouts, row(v.intents, intent).GetIntent().GetSource().GetRolloutId())
	if r.GetState() != rolloutv1.State_STATE_HALTED || r.Undoes != "" {
		return ""
	}
	if t, ok := v.Target(r.Id, server); !ok || t.State != rolloutv1.TargetState_TARGET_STATE_BROKEN {
		return ""
	}
	return r.Id
}

// acquit notes that a build works on a server after all, and so does each part of it.
func (v *faults) acquit(b *blockv1.Build, server string) {
	for _, b := range parts(b) {
		v.acquitOne(b, server)
	}
}

func (v *faults) acquitOne(b *blockv1.Build, server string) {
	id := block.ID(b)
	s := row(v.suspects, id)
	if s == nil {
		return
	}
	s.Working = max(s.Working, 1) // the next failure counts anew
	at, known := slices.BinarySearch(s.ServerIds, server)
	if !known {
		return
	}
	if s.ServerIds = slices.Delete(s.ServerIds, at, at+1); len(s.ServerIds) == 0 {
		v.suspects.Forget(id)
	}
}

// dropOldSuspect makes room for one more suspect.
func (v *faults) dropOldSuspect() {
	if v.suspects.Len() < mostSuspects {
		return
	}
	oldest := ""
	for id, s := range v.suspects.All() {
		first := row(v.suspects, oldest)
		c := s.LastAt.AsTime().Compare(first.GetLastAt().AsTime())
		if first == nil || c < 0 || c == 0 && id < oldest {
			oldest = id
		}
	}
	v.suspects.Forget(oldest)
}

// judgeHalt folds that a rollout halted: what failed on its broken servers halted it, unless it brings back what was.
func (v *faults) judgeHalt(r *rolloutv1.Rollout) {
	if r.Undoes != "" {
		return
	}
	for t := range v.TargetsOf(r.Id, rolloutv1.TargetState_TARGET_STATE_BROKEN) {
		for _, c := range t.Changes {
			i, _ := v.Instance(t.ServerId, c.Agent)
			b := v.buildOf(change{
				t.ServerId, c.Agent, c.From, c.To, i.GetConfiguration(), i.GetBefore(),
				i.GetObservedConfigurationDigest(),
			})
			for _, b := range parts(b) {
				if s := row(v.suspects, block.ID(b)); slices.Contains(s.GetServerIds(), t.ServerId) {
					s.RolloutId = r.Id
				}
			}
		}
	}
}

// Block returns a block by id.
func (v *faults) Block(id string) (*blockv1.Block, bool) { return v.blocks.Get(id) }

// Blocks returns the blocks that sort after an id, by id.
func (v *faults) Blocks(after string) iter.Seq2[string, *blockv1.Block] {
	return sorted(v.blocks, after)
}

// BlockCount returns how many blocks there are.
func (v *faults) BlockCount() int { return v.blocks.Len() }

// Suspects returns the builds that failed on servers and are not blocked, by the id of their block.
func (v *faults) Suspects() iter.Seq2[string, *blockv1.Suspect] { return sorted(v.suspects, "") }

// Suspect returns a build that failed on servers and is not blocked, by the id of its block.
func (v *faults) Suspect(id string) (*blockv1.Suspect, bool) { return v.suspects.Get(id) }

// ImagesNamed returns the images of an agent with a version, or with an id that starts so; an empty one is any.
func (v *origins) ImagesNamed(agent, version, id string) []*imagev1.Image {
	var out []*imagev1.Image
	for key, i := range v.images.All() {
		m := i.GetManifest()
		if m.GetAgent() == agent && (version == "" || m.GetVersion() == version) && strings.HasPrefix(key, id) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *imagev1.Image) int {
		return strings.Compare(a.GetManifest().GetId(), b.GetManifest().GetId())
	})
	return out
}
