package view

import (
	"strings"

	"github.com/tidwall/btree"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// indexes is what can be made again from the tables.
type indexes struct {
	serverBy   index.Set                 // server ids, by the groups of serverGroups
	instanceBy index.Set                 // instance keys, by the groups of instanceGroups
	removedBy  index.Set                 // keys of removed instances, by server and intent
	agentBy    index.Set                 // agent names, by application and all together
	recent     btree.Map[uint64, string] // intent ids, by the sequence of their fact
	duties     index.Set                 // ids of servers with something to be done; see package duty
}

// The names of groups. A value follows behind a colon.
const (
	groupAll         = "all"
	groupLiving      = "living"
	groupLeaked      = "leaked"
	groupFound       = "found"
	groupAhead       = "ahead"
	groupLife        = "life:"
	groupPresence    = "presence:"
	groupName        = "name:"
	groupEnvironment = "environment:"
	groupLabel       = "label:"
	groupServer      = "server:"
	groupAgent       = "agent:"
	groupImage       = "image:"
	groupState       = "state:"
	groupApplication = "application:"
	groupIntent      = "intent:"
)

func serverGroups(s *serverv1.Server) []string {
	if s == nil {
		return nil
	}
	groups := []string{
		groupAll, groupLife + s.Life.String(), groupPresence + s.Presence.String(),
		groupName + s.Name, groupEnvironment + s.Environment,
	}
	if server.Leaked(s) {
		groups = append(groups, groupLeaked)
	}
	if len(s.Found) > 0 || s.FoundMore > 0 {
		groups = append(groups, groupFound)
	}
	if s.Ahead != nil {
		groups = append(groups, groupAhead)
	}
	if s.Life != serverv1.Life_LIFE_DEAD {
		groups = append(groups, groupLiving)
	}
	for k, v := range s.Labels {
		groups = append(groups, labelGroup(k, v))
	}
	return groups
}

// labelGroup puts a character between key and value that neither may hold, so that no
// selector finds the value of one key under another.
func labelGroup(key, value string) string { return groupLabel + key + "\x01" + value }

func instanceGroups(i *instancev1.Instance) []string {
	if i == nil {
		return nil
	}
	groups := []string{groupAll, groupServer + i.ServerId, groupAgent + i.Agent, groupState + i.State.String()}
	if i.IntentId != "" {
		groups = append(groups, groupIntent+i.IntentId)
	}
	if i.Wanted != nil {
		groups = append(groups, groupImage+i.Wanted.Id)
	}
	if i.Observed != nil && i.Observed.Id != i.Wanted.GetId() {
		groups = append(groups, groupImage+i.Observed.Id)
	}
	return groups
}

func removedGroups(i *instancev1.Instance) []string {
	if i == nil {
		return nil
	}
	return []string{groupServer + i.ServerId, groupIntent + i.IntentId}
}

func (v *View) indexAgent(name string, before, after *agentv1.Agent) {
	v.agentBy.Change(name, agentGroups(before), agentGroups(after))
}

func agentGroups(a *agentv1.Agent) []string {
	if a == nil {
		return nil
	}
	return []string{groupAll, groupApplication + a.Application}
}

// judgeDuty notes whether anything is to be done about a server.
func (v *View) judgeDuty(id string) {
	s, ok := v.servers.Get(id)
	if ok && duty.Due(s, v.InstancesOf(id)) {
		v.duties.Add(groupAll, id)
		return
	}
	v.duties.Remove(groupAll, id)
}

func serverOf(instanceKey string) string {
	id, _, _ := strings.Cut(instanceKey, ".")
	return id
}

// Loaded makes the indexes again from tables that were read from a snapshot.
func (v *View) Loaded() {
	v.indexes = indexes{}
	for id, s := range v.servers.All() {
		v.serverBy.Change(id, nil, serverGroups(s))
	}
	for key, i := range v.instances.All() {
		v.instanceBy.Change(key, nil, instanceGroups(i))
	}
	for key, i := range v.removed.All() {
		v.removedBy.Change(key, nil, removedGroups(i))
	}
	for name, a := range v.agents.All() {
		v.indexAgent(name, nil, a)
	}
	for id := range v.intents.All() {
		v.recent.Set(v.intents.Sequence(id), id)
	}
	for id := range v.servers.All() {
		v.judgeDuty(id)
	}
}
