package view

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/leak"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// indexes are built from the tables.
type indexes struct {
	serverBy   index.Set                 // server ids, by the groups of serverGroups
	instanceBy index.Set                 // instance keys, by the groups of their fields
	removedBy  index.Set                 // keys of removed instances, by server and intent
	agentBy    index.Set                 // agent names, by application and kind, and all together
	recent     btree.Map[uint64, string] // intent ids, by the sequence of their fact
	duties     index.Set                 // ids of servers with duties; see package duty
	targetBy   index.Set                 // keys of targets, by the groups of targetGroups
	queue      index.Set                 // places and keys of pending targets, by rollout and wave
	externalBy index.Set                 // keys of external instances, by the groups of externalGroups

	shapes shapes // of instances
	kept   kept
}

func newIndexes() indexes { return indexes{kept: kept{tally: keep.NewTally()}} }

// The fields of groups, besides those of a selector.
const (
	byName        = "name in lower case"
	byEnvironment = "env"
	byPresence    = "presence"
	byLife        = "life"
	byStanding    = "standing"
	byCondition   = "condition"
	byTrouble     = "trouble"
	byServer      = "server"
	byAgent       = "agent"
	byImage       = "image"
	byVersion     = "version"
	byWayBack     = "way-back"
	byDrift       = "drift"
	byState       = "state"
	byHealth      = "health"
	byKind        = "kind"
	byApplication = "application"
	byIntent      = "intent"
	byToken       = "token"
	byKey         = "public key"
)

// The groups of records that share a property.
var (
	groupAll         = index.Group{Field: "all"}
	groupLiving      = index.Group{Field: "living"}
	groupLeaked      = index.Group{Field: "leaked"}
	groupFound       = index.Group{Field: "found"}
	groupAhead       = index.Group{Field: "ahead"}
	groupUnsigned    = index.Group{Field: "takes unsigned images"}
	groupNotAtWanted = index.Group{Field: "not at wanted"}
	groupByHand      = index.Group{Field: "by hand"}
)

func serverGroups(s *serverv1.Server) []index.Group {
	if s == nil {
		return nil
	}
	groups := []index.Group{groupAll, {Field: byName, Value: strings.ToLower(s.Name)}}
	if s.Environment == "" {
		groups = append(groups, index.Group{Field: byEnvironment, Value: environment.None})
	}
	for field, value := range serverValues {
		if v := value(s); v != "" {
			groups = append(groups, index.Group{Field: field, Value: v})
		}
	}
	for field := range selector.FieldNames() {
		if v := selector.Value(s, field); v != "" {
			groups = append(groups, index.Group{Field: field, Value: v})
		}
	}
	if leak.Leaked(s) {
		groups = append(groups, groupLeaked)
	}
	if len(s.Found) > 0 || s.FoundMore > 0 {
		groups = append(groups, groupFound)
	}
	if s.Ahead != nil {
		groups = append(groups, groupAhead)
	}
	if server.TakesUnsigned(s) {
		groups = append(groups, groupUnsigned)
	}
	if s.Life != serverv1.Life_LIFE_DEAD {
		groups = append(groups, groupLiving)
		if s.PublicKey != "" {
			groups = append(groups, index.Group{Field: byKey, Value: s.PublicKey})
		}
	}
	for k, v := range s.Labels {
		groups = append(groups, labelGroup(k, v))
	}
	return groups
}

func labelGroup(key, value string) index.Group {
	return index.Group{Field: labelField + key, Value: value}
}

// instanceFields is what an instance is found and counted by; the zero value is that of none.
type instanceFields struct {
	instanceShape
	intent string
}

func fieldsOf(i *instancev1.Instance) (f instanceFields) {
	if i != nil {
		f = instanceFields{shapeOf(i), i.IntentId}
	}
	return f
}

// groups returns the groups of an instance with the fields.
func (f instanceFields) groups() []index.Group {
	if f == (instanceFields{}) {
		return nil
	}
	groups := append(make([]index.Group, 0, 10), groupAll, index.Group{Field: byAgent, Value: f.agent},
		index.Group{Field: byState, Value: stateWord(f.state)},
		index.Group{Field: byHealth, Value: healthWord(f.health)})
	if f.intent != "" {
		groups = append(groups, index.Group{Field: byIntent, Value: f.intent})
	}
	for _, g := range []index.Group{
		{Field: byImage, Value: f.wantedImage}, {Field: byVersion, Value: f.wantedVersion},
		{Field: byImage, Value: f.image}, {Field: byVersion, Value: f.version},
	} {
		if g.Value != "" {
			groups = join(groups, g)
		}
	}
	if f.notAtWanted {
		groups = append(groups, groupNotAtWanted)
	}
	if f.byHand {
		groups = append(groups, groupByHand)
	}
	return groups
}

// indexInstance moves an instance from the groups of its fields before a fact to those of its record; nil means that it
// is gone. Most facts change no field.
func (v *View) indexInstance(key string, before instanceFields, now *instancev1.Instance) {
	if before != fieldsOf(now) {
		v.placeInstance(key, before, now)
	}
}

// placeInstance is indexInstance also when none of the fields changed: the server may be known only now.
func (v *View) placeInstance(key string, before instanceFields, now *instancev1.Instance) {
	v.place(key, before, fieldsOf(now))
}

// place moves a key from the groups of some fields to those of others.
func (v *View) place(key string, before, now instanceFields) {
	server, ok := v.serverBy.Number(serverOf(key))
	if !ok {
		server = noNumber
	}
	n, shape := v.instanceBy.Change(key, before.groups(), now.groups()), &now.instanceShape
	if now == (instanceFields{}) {
		shape = nil
	}
	v.shapes.set(n, shape, server)
}

// join adds a group that is not there yet.
func join(groups []index.Group, g index.Group) []index.Group {
	for _, have := range groups {
		if have == g {
			return groups
		}
	}
	return append(groups, g)
}

// removedGroups joins the server to the key's own order, so that a server's are found by their prefix.
func removedGroups(i *instancev1.Instance) []index.Group {
	if i == nil {
		return nil
	}
	return []index.Group{groupAll, {Field: byIntent, Value: i.IntentId}}
}

func (v *View) indexAgent(name string, before, after *agentv1.Agent) {
	v.agentBy.Change(name, agentGroups(before), agentGroups(after))
}

func agentGroups(a *agentv1.Agent) []index.Group {
	if a == nil {
		return nil
	}
	return []index.Group{
		groupAll, {Field: byApplication, Value: a.Application}, {Field: byKind, Value: agentKindWord(a.Kind)},
	}
}

// reviewDuty updates the index of servers with duties.
func (v *View) reviewDuty(id string) {
	v.reviewKept(id)
	s, ok := v.servers.Get(id)
	if ok && duty.Due(s, v.InstancesOf(id)) {
		v.duties.Add(groupAll, id)
		return
	}
	v.duties.Remove(groupAll, id)
}

// reviewInstance updates the index of servers with duties after a change of one instance, which is nil when it is gone.
// While a living server has no duty, only that instance can bring one.
func (v *View) reviewInstance(server string, i *instancev1.Instance) {
	v.reviewKept(server)
	s, ok := v.servers.Get(server)
	if ok && s.Life == serverv1.Life_LIFE_ALIVE && !v.duties.Has(groupAll, server) {
		if i == nil || !duty.Due(s, slices.Values([]*instancev1.Instance{i})) {
			return
		}
	}
	v.reviewDuty(server)
}

func serverOf(instanceKey string) string {
	id, _, _ := strings.Cut(instanceKey, ".")
	return id
}

// Loaded builds the indexes from tables that were read from a snapshot.
func (v *View) Loaded() {
	v.indexes = newIndexes()
	for id, s := range v.servers.All() {
		v.serverBy.Change(id, nil, serverGroups(s))
	}
	for key, i := range v.instances.All() {
		v.indexInstance(key, instanceFields{}, i)
	}
	for key, x := range v.externals.All() {
		v.externalBy.Change(key, nil, externalGroups(x))
	}
	for key, t := range v.targets.All() {
		id, _, _ := strings.Cut(key, ".")
		v.targetBy.Change(key, nil, targetGroups(id, t))
		v.queueTarget(id, t)
	}
	for key, i := range v.removed.All() {
		v.removedBy.Change(key, nil, removedGroups(i))
	}
	for name, a := range v.agents.All() {
		v.indexAgent(name, nil, a)
	}
	for id := range v.servers.All() {
		v.placeExecutor(id)
	}
	for id := range v.intents.All() {
		v.recent.Set(v.intents.Sequence(id), id)
	}
	v.keepRollouts()
	for id := range v.servers.All() {
		v.reviewDuty(id)
	}
}
