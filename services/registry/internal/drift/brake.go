package drift

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// LeastBraked is how many servers must drift before healing is braked, so that one of three does not brake it.
	LeastBraked = 3
	// BrakedFor is how long healing stays braked at least.
	BrakedFor = 30 * time.Second
)

// Drifted returns the cause with which an instance is not as a task left it, because something else changed it on its
// server; "" when nothing did.
func Drifted(i *instancev1.Instance) string {
	switch i.GetState() {
	case instancev1.State_STATE_DRIFTED, instancev1.State_STATE_FAILED:
	default:
		return ""
	}
	if i.Wanted == nil || instance.WantedFailed(i) { // a repair would bring what failed
		return ""
	}
	if d := seen(i); d != nil && code.Healed(d.Cause) {
		return d.Cause
	}
	return ""
}

// Tally counts the online servers of environments, and those that drift. It is not safe for concurrent use.
type Tally struct {
	servers map[string]standing
	counts  map[string]Count
}

type standing struct {
	environment string
	drifts      bool
}

// Count is how many online servers an environment has, and how many of them drift.
type Count struct{ Drifting, Online uint32 }

// NewTally returns a tally without a server.
func NewTally() *Tally { return &Tally{servers: map[string]standing{}, counts: map[string]Count{}} }

// Set counts a server as it is now; nil takes it out.
func (t *Tally) Set(id string, s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) {
	if was, ok := t.servers[id]; ok {
		t.add(was, ^uint32(0)) // minus one
		delete(t.servers, id)
	}
	if s.GetEnvironment() == "" || !counts(s) {
		return
	}
	is := standing{environment: s.Environment, drifts: Drifts(s, instances)}
	t.servers[id] = is
	t.add(is, 1)
}

// counts reports whether a server is online and its reports count.
func counts(s *serverv1.Server) bool {
	return server.Believed(s) && s.Presence == serverv1.Presence_PRESENCE_ONLINE
}

// Drifts reports whether a server is online and one of its instances drifts.
func Drifts(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) bool {
	if !counts(s) {
		return false
	}
	for i := range instances {
		if Drifted(i) != "" {
			return true
		}
	}
	return false
}

func (t *Tally) add(s standing, n uint32) {
	c := t.counts[s.environment]
	c.Online += n
	if s.drifts {
		c.Drifting += n
	}
	if t.counts[s.environment] = c; c == (Count{}) {
		delete(t.counts, s.environment)
	}
}

// Of returns the count of an environment.
func (t *Tally) Of(environment string) Count { return t.counts[environment] }

// Brake returns the fact by which healing in an environment is braked or released, or nil. It is released when half of
// what brakes it drifts, so that it does not alternate.
func Brake(e *environmentv1.Environment, c Count, now time.Time) proto.Message {
	heals := environment.DriftPolicy(e) == environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	percent, share := uint64(environment.DriftBrake(e)), 100*uint64(c.Drifting)
	switch {
	case e.Braked == nil && heals && c.Drifting >= LeastBraked && share > percent*uint64(c.Online):
		return &environmentv1.DriftBraked{Drifting: c.Drifting, Online: c.Online, Percent: uint32(percent)}
	case e.Braked == nil:
		return nil
	case !heals, percent == 100:
	case now.Sub(e.Braked.GetSince().AsTime()) < BrakedFor:
		return nil
	case c.Drifting > LeastBraked/2 && 2*share > percent*uint64(c.Online):
		return nil
	}
	return &environmentv1.DriftReleased{Drifting: c.Drifting, Online: c.Online}
}

// Widens reports whether a change of an environment lets executors heal what they do not heal before it: its policy
// becomes to heal, or its brake allows more.
func Widens(have, next *environmentv1.Environment) bool {
	const heal = environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	if environment.DriftPolicy(next) != heal {
		return false
	}
	return environment.DriftPolicy(have) != heal || environment.DriftBrake(next) > environment.DriftBrake(have)
}

// MovesTooWide refuses to move more drifting servers than most at once to an environment that heals them, of which nil
// stands for none. The command repair repairs them in waves.
func MovesTooWide(to *environmentv1.Environment, drifting, most int, repair string) *apiv1.Refusal {
	if drifting <= most || environment.DriftPolicy(to) != environmentv1.DriftPolicy_DRIFT_POLICY_HEAL {
		return nil
	}
	name := cmp.Or(to.GetName(), "none")
	return &apiv1.Refusal{
		Code: code.TooWide,
		Message: fmt.Sprintf("agents on %d of the servers drift, and environment %s would heal them at once; %d are "+
			"allowed without --at-once", drifting, name, most),
		Try: repair + ", and then the move",
	}
}

// TooWide refuses to have more servers than most healed at once; nil when fewer drift. The command repair repairs them
// in waves, by a task with a health check for each.
func TooWide(name string, c Count, most int, repair string) *apiv1.Refusal {
	if int(c.Drifting) <= most {
		return nil
	}
	return &apiv1.Refusal{
		Code: code.TooWide,
		Message: fmt.Sprintf("agents on %d of %d online servers of environment %q drift, and would be healed at once; "+
			"%d are allowed", c.Drifting, c.Online, name, most),
		Try: repair + ", and then this again",
	}
}
