package change

import (
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is where a change is: the step that it does next, or how it ended.
type State string

// The states in which a change does a step.
const (
	Checking       State = "checking"        // everything that can be known beforehand
	Reserving      State = "reserving"       // disk space
	Fetching       State = "fetching"        // the chunks
	Verifying      State = "verifying"       // the whole against its digest
	Staging        State = "staging"         // unpacked and sealed
	Deferring      State = "deferring"       // until no critical section lasts on the server
	Replacing      State = "replacing"       // a fresh copy takes the place of a damaged image
	Rehearsing     State = "rehearsing"      // the new version checks itself
	Assessing      State = "assessing"       // how healthy the old version is
	Switching      State = "switching"       // links and processes
	HealthChecking State = "health_checking" // the new version works and stays up
	Trial          State = "trial"           // a new executor works in the old one's place
	Committing     State = "committing"      // the inventory names the new version
	Starting       State = "starting"        // this process is the committed executor
	RollingBack    State = "rolling_back"    // the old version, or nothing, comes back

	Stopping  State = "stopping"   // a removal ends the process
	MovingOut State = "moving_out" // one rename; then the agent is not installed
	Deleting  State = "deleting"   // what was moved out

	Committed State = "committed" // what is no longer needed is swept
	Restored  State = "restored"  // the same; the agent is as before
	Broken    State = "broken"    // the same; the agent is neither new nor as before
)

// The ends of a change.
const (
	Good       State = "good"        // the new version, or the removal, is final
	RolledBack State = "rolled_back" // the agent is as before the change
	Failed     State = "failed"      // the rollback failed, or a removal left files
	Dropped    State = "dropped"     // nothing was touched; the document brings the change back
)

// Event is how a step came out.
type Event string

// The events.
const (
	Done        Event = "done"
	Refused     Event = "refused"     // it failed before anything of the agent was touched
	Failing     Event = "failed"      // it failed afterwards
	Interrupted Event = "interrupted" // the executor ended, and a later one recovers
	Exhausted   Event = "exhausted"   // it ended so too often
)

// Table is the life of a change.
type Table = fsm.Table[State, Event]

type moves = map[Event]State

// prepare returns the row of a state in which nothing of the agent is touched.
func prepare(next State) moves {
	return moves{Done: next, Refused: Restored, Interrupted: Dropped, Exhausted: Restored}
}

// preparing adds the common first states to a table.
func preparing(t Table, switches State) Table {
	t[Checking] = prepare(Reserving)
	t[Reserving] = prepare(Fetching)
	t[Fetching] = prepare(Verifying)
	t[Verifying] = prepare(Staging)
	t[Staging] = prepare(Deferring)
	t[Deferring] = prepare(Replacing)
	// Once a copy has begun to replace the image, the change is finished or rolled back, not dropped.
	t[Replacing] = touching(moves{Done: Rehearsing, Refused: Restored, Interrupted: Replacing})
	t[Rehearsing] = moves{
		Done: Assessing, Refused: Restored, Failing: RollingBack, Interrupted: Dropped, Exhausted: Restored,
	}
	t[Assessing] = moves{
		Done: switches, Refused: Restored, Failing: RollingBack, Interrupted: Dropped, Exhausted: Restored,
	}
	t[RollingBack] = moves{Done: Restored, Failing: Broken, Interrupted: RollingBack, Exhausted: Broken}
	return ending(t)
}

// touching completes the row of a state in which the agent may be touched.
func touching(m moves) moves {
	m[Failing], m[Exhausted] = RollingBack, RollingBack
	return m
}

// ending adds the common last states: a sweep, then the report.
func ending(t Table) Table {
	t[Restored] = moves{Done: RolledBack, Interrupted: Restored, Exhausted: RolledBack}
	t[Broken] = moves{Done: Failed, Interrupted: Broken, Exhausted: Failed}
	t[Good], t[RolledBack], t[Failed], t[Dropped] = moves{}, moves{}, moves{}, moves{}
	return t
}

// Bring is the life of an install, an upgrade, a configuration and a repair. A configuration
// and a repair keep the image: their steps find most of the work done.
var Bring = preparing(Table{
	Switching:      touching(moves{Done: HealthChecking, Refused: Restored, Interrupted: Switching}),
	HealthChecking: touching(moves{Done: Committing, Interrupted: Switching}),
	Committing:     touching(moves{Done: Committed, Interrupted: Switching}),
	Committed:      {Done: Good, Interrupted: Committed, Exhausted: Good},
}, Switching)

// Self is the life of a change of the executor's own program. An interrupted trial is not
// repeated: the trial may be what ended everything. A committed program that does not start
// is rolled back; its starts are counted where they happen.
var Self = preparing(Table{
	Trial:      touching(moves{Done: Committing, Refused: Restored, Interrupted: RollingBack}),
	Committing: touching(moves{Done: Starting, Interrupted: Committing}),
	Starting:   {Done: Committed, Failing: RollingBack, Interrupted: Starting},
	Committed:  {Done: Good, Interrupted: Starting},
}, Trial)

// Removal is the life of a removal. Until the move is committed the agent comes back whole;
// after it the agent is gone, and only files can be left.
var Removal = ending(Table{
	Checking:    prepare(Deferring),
	Deferring:   prepare(Stopping),
	Stopping:    touching(moves{Done: MovingOut, Refused: Restored, Interrupted: Stopping}),
	MovingOut:   touching(moves{Done: Deleting, Interrupted: Stopping}),
	RollingBack: {Done: Restored, Failing: Broken, Interrupted: RollingBack, Exhausted: Broken},
	Deleting:    {Done: Committed, Failing: Broken, Interrupted: Deleting, Exhausted: Broken},
	Committed:   {Done: Good, Interrupted: Committed, Exhausted: Good},
})

// Steps names the journal's step of each state.
var Steps = map[State]taskv1.Step{
	Checking: taskv1.Step_STEP_CHECK, Reserving: taskv1.Step_STEP_RESERVE, Fetching: taskv1.Step_STEP_FETCH,
	Verifying: taskv1.Step_STEP_VERIFY, Staging: taskv1.Step_STEP_STAGE, Deferring: taskv1.Step_STEP_DEFER,
	Replacing:  taskv1.Step_STEP_REHEARSE,
	Rehearsing: taskv1.Step_STEP_REHEARSE, Assessing: taskv1.Step_STEP_REHEARSE,
	Switching: taskv1.Step_STEP_SWITCH, Trial: taskv1.Step_STEP_SWITCH, HealthChecking: taskv1.Step_STEP_PROVE,
	Committing: taskv1.Step_STEP_COMMIT, Starting: taskv1.Step_STEP_COMMIT, RollingBack: taskv1.Step_STEP_UNDO,
	Stopping: taskv1.Step_STEP_SWITCH, MovingOut: taskv1.Step_STEP_COMMIT, Deleting: taskv1.Step_STEP_COMMIT,
	Committed: taskv1.Step_STEP_SWEEP, Restored: taskv1.Step_STEP_SWEEP, Broken: taskv1.Step_STEP_SWEEP,
}

// Forward reports whether a state brings the change on, and so ends with the task's deadline
// or the server's death. The others put things in order, however long that takes.
func (s State) Forward() bool {
	switch s {
	case RollingBack, Committed, Restored, Broken, Good, RolledBack, Failed, Dropped:
		return false
	}
	return true
}
