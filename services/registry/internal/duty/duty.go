// Package duty decides which facts the registry itself must record once the agents of a server are
// removed: instances that are gone, and servers that are dead.
//
// It is level-triggered: Units reads the present state, not events, so nothing is lost when a
// registry misses a fact. Two registries may do the same duty at once; the guards let one win.
//
// Guarantees:
//
//  1. A server becomes dead in one batch with the end of its last instances. The death is guarded on every fact about
//     the server and its instances, so that an instance which is added meanwhile defeats it.
//  2. No instance of a server that is dying is gone before the server is dead.
//  3. An instance that was still wanted when its server began to die is unwanted.
//  4. An instance whose intent was withdrawn before its change began is wanted as before, or gone; one whose server
//     undid the change is wanted as before.
//  5. An instance that is wanted on a server that is being reinstalled is unwanted.
//  6. A removal that failed on a server that is dying or being reinstalled is requested again every RetryEvery, until
//     RetryFor after that began.
package duty

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// RetryEvery is the pause after a removal failed before it is requested again.
	RetryEvery = 10 * time.Minute
	// RetryFor is for how long after a server began to die, or to be emptied, failed removals are requested again.
	// After that an operator repeats the command.
	RetryFor = 24 * time.Hour
)

// Change is one fact that is due: about an instance, or, when that is nil, about the server.
type Change struct {
	Instance *instancev1.Instance
	Body     proto.Message
}

// Unit is changes that are recorded together or not at all.
type Unit []Change

// Due reports whether Units returns anything for the server. It is cheap enough to call after every fact.
func Due(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) bool {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
		for i := range instances {
			if instance.Removed(i) || i.Reverts || i.Proven != nil || s.Reinstall != nil && stays(i) {
				return true
			}
		}
	case serverv1.Life_LIFE_DYING:
		ready := true
		for i := range instances {
			if i.Reverts || stays(i) {
				return true
			}
			ready = ready && instance.Removed(i)
		}
		return ready
	case serverv1.Life_LIFE_DEAD:
		for range instances {
			return true
		}
	}
	return false
}

// Units returns what must be recorded about a server and its instances at a time.
func Units(s *serverv1.Server, instances iter.Seq[*instancev1.Instance], at time.Time) []Unit {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
		if s.Reinstall != nil {
			return slices.Concat(gone(instances), late(instances, s.Reinstall.IntentId), adopted(instances),
				again(instances, s.Reinstall.IntentId, s.Reinstall.Since.AsTime(), at))
		}
		return slices.Concat(gone(instances), revert(instances), adopted(instances))
	case serverv1.Life_LIFE_DYING:
		return dying(s, instances, at)
	case serverv1.Life_LIFE_DEAD:
		return stray(instances)
	}
	return nil
}

// gone ends each instance whose removal succeeded, each in a unit of its own.
func gone(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		if instance.Removed(i) {
			out = append(out, Unit{end(i, false)})
		}
	}
	return out
}

// adopted records each process that a task proved to be taken over.
func adopted(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		if i.Proven != nil {
			out = append(out, Unit{{i, &instancev1.Adopted{InstanceId: i.Id, Image: i.Wanted, Adoption: i.Proven}}})
		}
	}
	return out
}

// dying unwants the instances that an intent wanted while the server began to die. Once all are
// removed, everything ends in one unit.
func dying(s *serverv1.Server, instances iter.Seq[*instancev1.Instance], at time.Time) []Unit {
	var last Unit
	ready := true
	for i := range instances {
		ready = ready && instance.Removed(i)
		last = append(last, end(i, false))
	}
	if !ready {
		return slices.Concat(late(instances, s.IntentId), again(instances, s.IntentId, s.Since.AsTime(), at))
	}
	return []Unit{append(last, Change{nil, &serverv1.Dead{IntentId: s.IntentId}})}
}

// late unwants each instance that an intent wanted while another one began to empty the server, in a unit of its own.
func late(instances iter.Seq[*instancev1.Instance], intent string) []Unit {
	var out []Unit
	for i := range instances {
		if i.Wanted != nil || i.Reverts {
			out = append(out, unwant(i, intent))
		}
	}
	return out
}

func unwant(i *instancev1.Instance, intent string) Unit {
	return Unit{{i, &instancev1.Unwanted{InstanceId: i.Id, Generation: i.Generation + 1, IntentId: intent}}}
}

// stays reports whether an instance is wanted, or its removal failed: on a server that leaves, neither may last.
func stays(i *instancev1.Instance) bool { return i.Wanted != nil || failed(i) }

// failed reports whether the removal of an instance failed.
func failed(i *instancev1.Instance) bool {
	return i.Wanted == nil && i.State == instancev1.State_STATE_FAILED
}

// again requests each removal again that failed a while ago.
func again(instances iter.Seq[*instancev1.Instance], intent string, began, at time.Time) []Unit {
	var out []Unit
	for i := range instances {
		if failed(i) && !i.Reverts && at.Sub(i.Since.AsTime()) >= RetryEvery && at.Sub(began) < RetryFor {
			out = append(out, unwant(i, intent))
		}
	}
	return out
}

// stray ends the instances that an intent wanted while the server died. They never reached the machine.
func stray(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		out = append(out, Unit{end(i, true)})
	}
	return out
}

func end(i *instancev1.Instance, lost bool) Change {
	return Change{i, &instancev1.Gone{InstanceId: i.Id, IntentId: i.IntentId, Lost: lost}}
}

// revert makes each instance whose change is off wanted as the change before wanted it. An instance without a change
// before is gone, because it never reached the server.
func revert(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		if i.Reverts {
			out = append(out, Unit{{i, before(i)}})
		}
	}
	return out
}

func before(i *instancev1.Instance) proto.Message {
	last, generation := i.LastBegun, i.Generation+1
	switch {
	case last == nil:
		return &instancev1.Gone{InstanceId: i.Id, IntentId: i.IntentId}
	case last.Wanted == nil:
		return &instancev1.Unwanted{
			InstanceId: i.Id, Generation: generation, IntentId: last.IntentId, RevertedIntentId: i.IntentId,
		}
	}
	return &instancev1.Wanted{
		InstanceId: i.Id, Generation: generation, Image: last.Wanted, Configuration: last.Configuration,
		IntentId: cmp.Or(last.IntentId, i.IntentId), RevertedIntentId: i.IntentId, // an adopted instance has no intent
	}
}
