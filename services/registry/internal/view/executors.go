package view

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
)

// Executor is the agent under whose name executors are listed that were installed on their machines, and not by an
// intent. Such an executor has no record: its row follows from the record of its server, and the indexes of instances
// hold it beside the others. It ends when the server gets an instance of that name or of kind self.
const Executor = "executor"

// ExecutorByHand returns the instance that an executor would be which was installed on its machine, or nil: it wants
// nothing, so it never differs from what is wanted.
func (v *fleet) ExecutorByHand(s *serverv1.Server) *instancev1.Instance {
	running := s.GetSysinfo().GetExecutorVersion()
	if running == "" || !server.Managed(s) || v.hasSelf(s.Id) {
		return nil
	}
	i := &instancev1.Instance{
		ServerId: s.Id, Agent: Executor, Observed: &imagev1.Ref{Version: running},
		State: instancev1.State_STATE_CONVERGED, Since: s.EnrolledAt,
	}
	suspended := s.GetCondition().GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED
	switch {
	case suspended:
		i.State, i.Health, i.Since = instancev1.State_STATE_FAILED, instancev1.Health_HEALTH_BAD, s.Condition.Since
		i.Reason, i.ObservedReason, i.ObservedCode = s.Condition.Reason, s.Condition.Reason, s.Condition.Code
	case s.Presence == serverv1.Presence_PRESENCE_ONLINE:
		i.Health = instancev1.Health_HEALTH_GOOD
	}
	return i
}

// hasSelf reports whether a server has an instance that is its executor, or one of its name.
func (v *fleet) hasSelf(id string) bool {
	if _, ok := v.Instance(id, Executor); ok {
		return true
	}
	for agent := range v.agentBy.Ascend(selfAgents, "") {
		if _, ok := v.Instance(id, agent); ok {
			return true
		}
	}
	return false
}

// selfAgents is the group of the agents that are executors.
var selfAgents = index.Group{Field: byKind, Value: agentKindWord(agentv1.Kind_KIND_SELF)}

// isSelf reports whether an instance of an agent takes the place of a server's own executor.
func (v *fleet) isSelf(agent string) bool {
	return agent == Executor || v.agentBy.Has(selfAgents, agent)
}

// placeExecutor brings the row of a server's own executor up to what follows from the records.
func (v *View) placeExecutor(id string) {
	key := ledger.Key(id, Executor)
	if _, ok := v.instances.Get(key); ok {
		return // an instance has the key
	}
	before, now := v.fieldsAt(key), v.ExecutorByHand(row(v.servers, id))
	if after := executorFields(now); before != after {
		v.place(key, before, after)
	}
}

// dropExecutor removes the row of a server's own executor, before an instance takes its key.
func (v *View) dropExecutor(id string) {
	key := ledger.Key(id, Executor)
	if _, ok := v.instances.Get(key); !ok {
		if before := v.fieldsAt(key); before != (instanceFields{}) {
			v.place(key, before, instanceFields{})
		}
	}
}

// executorFields returns what an executor without an instance is found and counted by.
func executorFields(i *instancev1.Instance) instanceFields {
	f := fieldsOf(i)
	f.byHand = i != nil
	return f
}

// fieldsAt returns the fields by which the indexes hold a key that has no record.
func (v *fleet) fieldsAt(key string) instanceFields {
	if n, ok := v.instanceBy.Number(key); ok {
		return instanceFields{instanceShape: v.shapes.rows[v.shapes.of[n]].shape}
	}
	return instanceFields{}
}

// placeExecutorsOf does so for the servers with an instance of an agent whose kind became self, or another one.
func (v *View) placeExecutorsOf(agent string) {
	group := index.Group{Field: byAgent, Value: agent}
	for _, key := range slices.Collect(v.instanceBy.Ascend(group, "")) {
		v.placeExecutor(serverOf(key))
	}
}

// foundAt returns the instance at a key, or with executors the one that an executor without an instance would be.
func (v *fleet) foundAt(key string, executors bool) (*instancev1.Instance, bool) {
	if i, ok := v.instances.Get(key); ok || !executors {
		return i, ok
	}
	i := v.ExecutorByHand(row(v.servers, serverOf(key)))
	return i, i != nil
}

// ByHand reports whether an instance of a list is an executor that was installed on its machine.
func ByHand(i *instancev1.Instance) bool { return i.GetId() == "" && i.GetAgent() == Executor }
