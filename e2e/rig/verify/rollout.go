package verify

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"

	noun "github.com/garrison-fleet/garrison/pkg/noun/task"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// rollout is what the ledger says of a rollout, read without the registry's engine.
type rollout struct {
	undoes         bool
	running, ended bool
	approve        map[uint32]bool // waves that begin only after an approval
	approved       map[uint32]bool
	waveOf         map[string]uint32 // by server
	servers        int               // in waves
	maxBroken      *rolloutv1.Limit
	open, passed   map[uint32]bool
	released       map[string]bool
	primed         map[string]bool   // servers that fetch ahead
	broken         map[string]uint64 // servers whose change was rolled back or failed, with the fact
}

// rollouts checks that no rollout goes past a gate that is closed.
type rollouts struct {
	byID    map[string]*rollout
	derived map[string]string   // the rollout of an intent that it derived to bring its change
	tasks   map[string][]string // the rollout and the server of a task
	breaks  func(f ledger.Fact, format string, args ...any)
}

func newRollouts(breaks func(f ledger.Fact, format string, args ...any)) *rollouts {
	return &rollouts{
		byID: map[string]*rollout{}, derived: map[string]string{}, tasks: map[string][]string{}, breaks: breaks,
	}
}

func (c *rollouts) fold(f ledger.Fact) {
	switch b := f.Body.(type) {
	case *intentv1.Accepted:
		c.accepted(f, b)
	default:
		if q := noun.Opened(f.Body); q != nil {
			c.taskOpened(f, q)
		}
		if t := c.tasks[f.Key]; f.Noun == ledger.Task && t != nil {
			c.task(f, c.byID[t[0]], t[1])
		}
	}
	if f.Noun == ledger.Rollout {
		c.rollout(f)
	}
}

// accepted remembers the intents that bring a rollout's change. Those that take a broken server back are others.
func (c *rollouts) accepted(f ledger.Fact, b *intentv1.Accepted) {
	id := b.GetIntent().GetSource().GetRolloutId()
	r := c.byID[id]
	if r == nil || b.GetIntent().GetUndo() != nil && !r.undoes {
		return
	}
	c.derived[f.Key] = id
}

// taskOpened remembers the tasks that bring a rollout's change. One that fetches ahead must change no agent.
func (c *rollouts) taskOpened(f ledger.Fact, b *taskv1.Queued) {
	id := c.derived[b.GetIntentId()]
	switch {
	case id == "":
	case b.GetAhead() == nil:
		c.tasks[f.Key] = []string{id, b.GetServerId()}
	case b.GetVerb() != taskv1.Verb_VERB_REFRESH || b.GetAgent() != "" || b.GetTo() != nil:
		c.breaks(f, "task %s fetches ahead and changes %s", f.Key, b.GetAgent())
	case !c.byID[id].primed[b.GetServerId()]:
		c.breaks(f, "task %s has server %s fetch ahead, which its rollout did not ask", f.Key, b.GetServerId())
	}
}

// task checks a fact about a task that brings a rollout's change.
func (c *rollouts) task(f ledger.Fact, r *rollout, server string) {
	switch f.Name() {
	case "assigned":
		if !r.released[server] {
			c.breaks(f, "task %s changes server %s, which its rollout has not released", f.Key, server)
		}
	case "failed", "undone":
		if r.waveOf[server] > 0 {
			r.broken[server] = f.Sequence
		}
	case "succeeded", "reported-late":
		delete(r.broken, server)
	}
}

func (c *rollouts) rollout(f ledger.Fact) {
	r := c.byID[f.Key]
	if b, ok := f.Body.(*rolloutv1.Planned); ok {
		c.planned(f.Key, b)
		return
	}
	if r == nil {
		c.breaks(f, "rollout %s was %s before it was planned", f.Key, f.Name())
		return
	}
	switch b := f.Body.(type) {
	case *rolloutv1.Extended:
		r.place(b.Targets)
		r.servers += len(b.Targets)
	case *rolloutv1.Opened:
		c.opened(f, r, b)
	case *rolloutv1.Released:
		c.released(f, r, b)
	case *rolloutv1.Primed:
		c.primed(f, r, b)
	case *rolloutv1.Passed:
		if !r.running || !r.open[b.Wave] || r.passed[b.Wave] {
			c.breaks(f, "wave %d of rollout %s passed although it is not open", b.Wave, f.Key)
		}
		r.passed[b.Wave] = true
		c.within(f, r, b.GetBasis())
	case *rolloutv1.Approved:
		r.approved[b.Wave] = true
	case *rolloutv1.Paused, *rolloutv1.Halted:
		r.running = false
	case *rolloutv1.Resumed:
		r.running = true
		clear(r.broken) // a person accepted the damage
	case *rolloutv1.Succeeded, *rolloutv1.Aborted, *rolloutv1.Undone:
		r.running, r.ended = false, true
	}
}

// primed checks that servers are asked once to fetch ahead, and before their turn.
func (c *rollouts) primed(f ledger.Fact, r *rollout, b *rolloutv1.Primed) {
	if !r.running {
		c.breaks(f, "rollout %s has servers fetch ahead while it does not run", f.Key)
	}
	for _, id := range b.GetServerIds() {
		if r.primed[id] || r.released[id] {
			c.breaks(f, "rollout %s has server %s fetch ahead again, or after its turn", f.Key, id)
		}
		r.primed[id] = true
	}
}

func (c *rollouts) planned(id string, b *rolloutv1.Planned) {
	r := c.byID[id]
	if r == nil {
		s := b.GetStrategy()
		r = &rollout{
			undoes: b.GetUndoes() != "", maxBroken: s.GetMaxBroken(), approve: map[uint32]bool{},
			approved: map[uint32]bool{}, waveOf: map[string]uint32{}, open: map[uint32]bool{},
			passed: map[uint32]bool{}, released: map[string]bool{}, primed: map[string]bool{},
			broken: map[string]uint64{},
		}
		for n, servers := range b.GetWaves() {
			r.servers += int(servers)
			of := n < len(s.GetStages()) && s.GetStages()[n].GetApprove()
			r.approve[uint32(n)+1] = !s.GetEmergency() && (of || n > 0 && s.GetApprove())
		}
		c.byID[id] = r
	}
	r.place(b.GetTargets())
	r.running = b.GetPart() >= b.GetParts()
}

func (r *rollout) place(targets []*rolloutv1.Target) {
	for _, t := range targets {
		r.waveOf[t.GetServerId()] = t.GetWave()
	}
}

func (c *rollouts) opened(f ledger.Fact, r *rollout, b *rolloutv1.Opened) {
	switch {
	case !r.running:
		c.breaks(f, "wave %d of rollout %s began while it does not run", b.Wave, f.Key)
	case b.Wave > 1 && !r.passed[b.Wave-1]:
		c.breaks(f, "wave %d of rollout %s began before wave %d passed", b.Wave, f.Key, b.Wave-1)
	case r.approve[b.Wave] && !r.approved[b.Wave]:
		c.breaks(f, "wave %d of rollout %s began without its approval", b.Wave, f.Key)
	case r.open[b.Wave]:
		c.breaks(f, "wave %d of rollout %s began again", b.Wave, f.Key)
	}
	r.open[b.Wave] = true
	c.within(f, r, b.GetBasis())
}

func (c *rollouts) released(f ledger.Fact, r *rollout, b *rolloutv1.Released) {
	owed := b.Wave == 0 || r.ended || r.passed[b.Wave] // served later than their wave
	if !r.running && !(owed && r.ended) {
		c.breaks(f, "rollout %s released %d servers while it does not run", f.Key, len(b.ServerIds))
	}
	if b.Wave > 0 && !r.open[b.Wave] {
		c.breaks(f, "rollout %s released %d servers of wave %d, which has not begun", f.Key, len(b.ServerIds), b.Wave)
	}
	for _, id := range b.ServerIds {
		if wave, planned := r.waveOf[id]; !planned || wave != b.Wave {
			c.breaks(f, "rollout %s released server %s in wave %d; planned was %d", f.Key, id, b.Wave, wave)
		}
		if r.released[id] && !owed {
			c.breaks(f, "rollout %s released server %s again", f.Key, id)
		}
		r.released[id] = true
	}
	c.within(f, r, b.GetBasis())
}

// within checks that a rollout went on only while no more servers were broken than it may break, as far as the decision
// could know.
func (c *rollouts) within(f ledger.Fact, r *rollout, basis *rolloutv1.Basis) {
	limit := r.servers / 100
	switch by := r.maxBroken.GetBy().(type) {
	case *rolloutv1.Limit_Servers:
		limit = int(by.Servers)
	case *rolloutv1.Limit_Percent:
		limit = r.servers * int(by.Percent) / 100
	}
	known := 0
	for _, at := range r.broken {
		if at <= basis.GetSequence() {
			known++
		}
	}
	if known > limit {
		c.breaks(f, "rollout %s was %s although %d servers were broken; it may break %d", f.Key, f.Name(), known, limit)
	}
}
