package view

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// kept counts the servers that work, by the fields of keep budgets: those of environments, and those of rollouts that
// have not ended, whose groups belong to no environment. It follows from the tables.
type kept struct {
	tally  *keep.Tally
	fields map[string]bool // of the keep budgets of rollouts
}

// budgets is the keep budgets, and the servers that count for them.
type budgets struct {
	*search
}

// Works reports whether a server is online, no agent on it waits for a change or is unhealthy, and none is in a state
// that its last change left unknown. The task-dispatcher counts by the same, so that a server which went back to what
// ran before works for both.
func (v *budgets) Works(id string) bool {
	s, ok := v.servers.Get(id)
	if !ok || s.Presence != serverv1.Presence_PRESENCE_ONLINE || s.Life != serverv1.Life_LIFE_ALIVE ||
		server.ShutOut(s) {
		return false
	}
	for i := range v.InstancesOf(id) {
		if !runs(i) {
			return false
		}
	}
	return true
}

// runs reports whether an agent runs as well as before its last change, or as it is wanted.
func runs(i *instancev1.Instance) bool {
	switch i.State {
	case instancev1.State_STATE_CONVERGED:
		return true
	case instancev1.State_STATE_FAILED, instancev1.State_STATE_DRIFTED:
		unknown := i.TaskState == taskv1.State_STATE_EXPIRED ||
			i.Wanted == nil && i.TaskState == taskv1.State_STATE_FAILED // a removal that came part of the way
		placed := instance.Placed(i) != nil || i.Before.GetImage() != nil
		return !unknown && i.Health != instancev1.Health_HEALTH_BAD &&
			(i.Health != instancev1.Health_HEALTH_ABSENT || !placed)
	}
	return false
}

// Kept returns how many servers with a field's value there are and work; a keep budget of a rollout that has not ended
// names the field.
func (v *budgets) Kept(field, value string) keep.Count {
	return v.kept.tally.Of(keep.Group{Field: field, Value: value})
}

// Budgets returns the keep budgets of a server's environment, and their groups.
func (v *budgets) Budgets(id string) ([]*rolloutv1.Keep, []keep.Group) {
	s := row(v.servers, id)
	if s.GetLife() != serverv1.Life_LIFE_ALIVE {
		return nil, nil
	}
	budgets := row(v.environments, s.Environment).GetKeep()
	return budgets, keep.GroupsOf(budgets, s.Environment, s.Labels)
}

// InGroup returns how many servers of a group of Budgets there are and work.
func (v *budgets) InGroup(g keep.Group) keep.Count { return v.kept.tally.Of(g) }

// reviewKept counts a server anew after something about it changed.
func (v *budgets) reviewKept(id string) {
	_, groups := v.Budgets(id)
	if len(v.kept.fields) > 0 {
		if s := row(v.servers, id); server.Living(s) {
			for _, field := range slices.Sorted(maps.Keys(v.kept.fields)) {
				groups = append(groups, keep.Group{Field: field, Value: selector.Value(s, field)})
			}
		}
	}
	if len(groups) == 0 {
		v.kept.tally.Drop(id)
		return
	}
	v.kept.tally.Set(id, groups, v.Works(id))
}

// keepEnvironment counts the servers of an environment anew when its keep budgets changed.
func (v *budgets) keepEnvironment(name string, had []*rolloutv1.Keep) {
	same := func(a, b *rolloutv1.Keep) bool { return proto.Equal(a, b) }
	if slices.EqualFunc(had, row(v.environments, name).GetKeep(), same) {
		return
	}
	for s := range v.ServersWhere(name, nil) {
		v.reviewKept(s.Id)
	}
}

// keepRollouts counts every server anew when the rollouts that have not ended have keep budgets by other fields.
func (v *budgets) keepRollouts() {
	fields := map[string]bool{}
	for _, r := range v.rollouts.All() {
		if r.State == rolloutv1.State_STATE_SUCCEEDED || !rollouts.Ended(r.State) { // it serves owed servers later
			for _, k := range r.Strategy.GetKeep() {
				fields[k.Field] = true
			}
		}
	}
	if maps.Equal(fields, v.kept.fields) {
		return
	}
	v.kept.fields = fields
	for id := range v.servers.All() {
		v.reviewKept(id)
	}
}
