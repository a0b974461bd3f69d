// Package duty says what the registry itself must record once the agents of a server
// are removed: instances that are gone, and servers that are dead.
//
// It is level triggered: Units looks at what is, not at what happened, so nothing is
// lost when a fact was heard by nobody. Two registries may do the same duty at once;
// the guards let one of them win.
//
// Guarantees:
//
//  1. A server becomes dead in one unit with the end of its last instances.
//  2. No instance of a server that is dying is gone before the server is dead.
//  3. An instance that was still wanted when its server began to die is unwanted.
//  4. An instance whose intent was withdrawn before it began is wanted as before, or gone.
package duty

import (
	"iter"

	"google.golang.org/protobuf/proto"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
)

// Change is one fact that is due: about an instance, or, when that is nil, about the server.
type Change struct {
	Instance *instancev1.Instance
	Body     proto.Message
}

// Unit is changes that are recorded together or not at all.
type Unit []Change

// Due says whether Units has anything for the server. It is cheap enough to ask after every fact.
func Due(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) bool {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
		for i := range instances {
			if instance.Removed(i) || i.Withdrawn {
				return true
			}
		}
	case serverv1.Life_LIFE_DYING:
		ready := true
		for i := range instances {
			if i.Wanted != nil || i.Withdrawn {
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

// Units gives what must be recorded about a server and its instances now.
func Units(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) []Unit {
	switch s.GetLife() {
	case serverv1.Life_LIFE_ALIVE:
		return append(gone(instances), back(instances)...)
	case serverv1.Life_LIFE_DYING:
		return dying(s, instances)
	case serverv1.Life_LIFE_DEAD:
		return stray(instances)
	}
	return nil
}

// gone ends each instance whose removal is proven, each in a unit of its own.
func gone(instances iter.Seq[*instancev1.Instance]) []Unit {
	var out []Unit
	for i := range instances {
		if instance.Removed(i) {
			out = append(out, Unit{end(i, false)})
		}
	}
	return out
}

// dying unwants what an intent wanted at the very moment when the server began to die;
// once all is removed, everything ends in one unit.
func dying(s *serverv1.Server, instances iter.Seq[*instancev1.Instance]) []Unit {
	var late []Unit
	var last Unit
	ready := true
	for i := range instances {
		if i.Wanted != nil || i.Withdrawn {
			late = append(late, Unit{{i, &instancev1.Unwanted{InstanceId: i.Id, Generation: i.Generation + 1, IntentId: s.IntentId}}})
		}
		ready = ready && instance.Removed(i)
		last = append(last, end(i, false))
	}
	if !ready {
		return late
	}
	return []Unit{append(last, Change{nil, &serverv1.Dead{IntentId: s.IntentId}})}
}

// stray ends what an intent wanted at the very moment when the server died: nothing of it ever reached the machine.
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
