package view

import (
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	agentnoun "github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	instancenoun "github.com/garrison-fleet/garrison/pkg/noun/instance"
	servernoun "github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

const labelField = "label."

// serverValues are the fields of a server by which it is found and counted, besides those of a selector.
var serverValues = map[string]func(*serverv1.Server) string{
	byLife:      func(s *serverv1.Server) string { return lifeWord(s.GetLife()) },
	byStanding:  standing,
	byCondition: condition,
	byTrouble:   servernoun.Trouble,
	byToken:     (*serverv1.Server).GetToken,
}

// standing returns whether a server under management is believed, in one word.
func standing(s *serverv1.Server) string { return standingWord(s.GetStanding()) }

// condition returns what the executor of a server last said that it does. One that said nothing else runs.
func condition(s *serverv1.Server) string {
	if c := s.GetCondition(); c != nil {
		return executorWord(c.State)
	}
	return executorWord(serverv1.ExecutorState_EXECUTOR_STATE_RUNNING)
}

// instanceValues are the fields of an instance by which it is counted, besides those of its server and its agent.
var instanceValues = map[string]func(*instancev1.Instance) string{
	byServer:         func(i *instancev1.Instance) string { return i.GetServerId() },
	byAgent:          func(i *instancev1.Instance) string { return i.GetAgent() },
	byVersion:        func(i *instancev1.Instance) string { return i.GetObserved().GetVersion() },
	byImage:          func(i *instancev1.Instance) string { return i.GetObserved().GetId() },
	"wanted-version": func(i *instancev1.Instance) string { return i.GetWanted().GetVersion() },
	"wanted-image":   func(i *instancev1.Instance) string { return i.GetWanted().GetId() },
	byState:          func(i *instancev1.Instance) string { return stateWord(i.GetState()) },
	byHealth:         func(i *instancev1.Instance) string { return healthWord(i.GetHealth()) },
	byWayBack:        wayBack,
}

// wayBack returns the ids of the images to which an instance may have to return, sorted and joined by commas: those
// that its server keeps, those of before its last changes, and the one that is wanted again when its intent is
// withdrawn.
func wayBack(i *instancev1.Instance) string {
	last := i.GetLastBegun()
	ids := []string{i.GetBefore().GetImage().GetId(), last.GetWanted().GetId(), last.GetBefore().GetImage().GetId()}
	for _, k := range i.GetKept() {
		ids = append(ids, k.GetImage().GetId())
	}
	slices.Sort(ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
	return strings.Join(ids, ",")
}

// notAtWanted reports whether another image is there than the wanted one, or none, or one although none is wanted.
// An executor that was installed on its machine never differs: nothing is wanted of it.
func notAtWanted(i *instancev1.Instance) bool {
	return !ByHand(i) && !instancenoun.SameImage(i.GetWanted(), i.GetObserved())
}

// aliases are other names of fields.
var aliases = map[string]string{
	"app": byApplication, "environment": byEnvironment, "processors": "cpus", "executor_version": "executor",
}

// FieldName returns the name of a field by which servers, or else instances, are counted; ok is false for an unknown
// one.
func FieldName(field string, ofInstances bool) (name string, ok bool) {
	if alias, is := aliases[field]; is {
		field = alias
	}
	if label, is := strings.CutPrefix(field, labelField); is {
		return field, label != ""
	}
	return field, slices.Contains(slices.Collect(FieldNames(ofInstances)), field)
}

// FieldNames returns every field by which servers, or else instances, are counted, besides labels.
func FieldNames(ofInstances bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		var names []string
		names = slices.AppendSeq(names, selector.FieldNames())
		for name := range serverValues {
			names = append(names, name)
		}
		if ofInstances {
			for name := range instanceValues {
				names = append(names, name)
			}
			names = append(names, byKind, byApplication, byDrift)
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(name) {
				return
			}
		}
	}
}

// serverValue returns a field of a server; empty when it has none.
func serverValue(s *serverv1.Server, field string) string {
	if value, is := serverValues[field]; is {
		return value(s)
	}
	return selector.Value(s, field)
}

// instanceValue returns a field of an instance, its agent or its server; empty when it has none.
func (v *filters) instanceValue(i *instancev1.Instance, s *serverv1.Server, field string) string {
	switch value, is := instanceValues[field]; {
	case is:
		return value(i)
	case field == byApplication:
		return row(v.agents, i.GetAgent()).GetApplication()
	case field == byDrift:
		return v.driftOf(i, s)
	case field == byKind:
		return agentKindWord(v.kindOf(i.GetAgent(), ByHand(i)))
	}
	return serverValue(s, field)
}

// driftOf returns "heals" for an instance that drifted and that its executor repairs by itself; empty for any other.
func (v *filters) driftOf(i *instancev1.Instance, s *serverv1.Server) string {
	if drift.Drifted(i) == "" || s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE || !v.Heals(s) {
		return ""
	}
	return "heals"
}

// Heals reports whether executors may heal drift in a server's environment.
func (v *filters) Heals(s *serverv1.Server) bool {
	e := row(v.environments, s.GetEnvironment())
	return environment.DriftPolicy(e) == environmentv1.DriftPolicy_DRIFT_POLICY_HEAL && e.GetBraked() == nil
}

// The words of enums, as the CLI prints them.
var (
	lifeWord      = wordsOf[serverv1.Life]()
	presenceWord  = wordsOf[serverv1.Presence]()
	standingWord  = wordsOf[serverv1.Standing]()
	executorWord  = wordsOf[serverv1.ExecutorState]()
	stateWord     = wordsOf[instancev1.State]()
	healthWord    = wordsOf[instancev1.Health]()
	agentKindWord = agentnoun.KindWord
)

// wordsOf returns a function that returns the word of an enum's value; empty for the unspecified one.
func wordsOf[E interface {
	~int32
	protoreflect.Enum
}]() func(E) string {
	var zero E
	values := zero.Descriptor().Values()
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	words := map[E]string{}
	for n := range values.Len() {
		if v := values.Get(n); v.Number() != 0 {
			word := strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
			words[E(v.Number())] = strings.ReplaceAll(word, "_", "-")
		}
	}
	return func(e E) string { return words[e] }
}
