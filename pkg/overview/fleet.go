// Package overview is the fleet on one screen: servers, instances, versions and rollouts, counted at the services, and
// what needs a person.
package overview

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/window"

	"github.com/garrison-fleet/garrison/pkg/display"
)

// Fleet is the whole answer. Its JSON is promised: keys are only added.
type Fleet struct {
	Servers   Servers          `json:"servers"`
	Instances Instances        `json:"instances"`
	Tasks     map[string]int   `json:"tasks,omitempty"` // under way, by state
	Holds     int              `json:"holds"`
	Versions  []AgentVersion   `json:"versions"`
	Others    int              `json:"otherInstances,omitempty"` // of further agents and versions
	Attention []AttentionPoint `json:"attention"`
	Waiting   []AttentionPoint `json:"waiting,omitempty"` // what ends by itself
	Rollouts  []RolloutLine    `json:"rollouts,omitempty"`
}

// RolloutLine is a rollout that is under way.
type RolloutLine struct {
	Id    string `json:"id"`
	Title string `json:"title"`
	State string `json:"state"` // with what it waits for
	Wave  string `json:"wave"`
}

// Servers is how many servers are not dead, together and in each state that any is in.
type Servers struct {
	Total    int            `json:"total"`
	Life     map[string]int `json:"life"`
	Presence map[string]int `json:"presence"` // of those that are alive or dying
	Standing map[string]int `json:"standing"`
}

// Instances is how many instances there are, together and in each state that any is in.
type Instances struct {
	Total  int            `json:"total"`
	State  map[string]int `json:"state"`
	Health map[string]int `json:"health"`
}

// AgentVersion is how many instances of an agent have a version; an empty version is that of agents that are absent.
type AgentVersion struct {
	Agent   string `json:"agent"`
	Version string `json:"version"`
	Count   int    `json:"count"`
}

// AttentionPoint is something that a person must look at, or that ends by itself, and the command that shows it.
type AttentionPoint struct {
	Count int    `json:"count"`
	What  string `json:"what"`
	Next  string `json:"next"`
}

// fleetOf summarizes the answers.
func fleetOf(a answers) Fleet {
	f := Fleet{Versions: []AgentVersion{}, Attention: []AttentionPoint{}, Holds: len(a.holds.GetHolds())}
	f.Rollouts = a.underWay()
	for _, h := range a.holds.GetHolds() {
		if h.GetAgent() == "" {
			paused := AttentionPoint{1, "site is paused, " + display.HoldText(h), "garrison unhold --all"}
			f.Attention = append(f.Attention, paused)
		}
	}
	f.Servers = Servers{
		Total: int(a.servers.GetCounts().GetTotal()),
		Life:  map[string]int{}, Presence: map[string]int{}, Standing: map[string]int{},
	}
	troubles := map[string]int{}
	for _, g := range a.servers.GetCounts().GetGroups() {
		v, n := g.GetValues(), int(g.GetCount())
		f.Servers.Life[v[0]] += n
		if v[0] == "invited" {
			continue // it was never there
		}
		f.Servers.Presence[v[1]] += n
		f.Servers.Standing[v[2]] += n
		if v[3] != "" {
			troubles[v[3]] += n
		}
	}
	f.Instances = Instances{
		Total: int(a.states.GetCounts().GetTotal()), State: map[string]int{}, Health: map[string]int{},
	}
	for _, g := range a.states.GetCounts().GetGroups() {
		state, health := g.GetValues()[0], g.GetValues()[1]
		if g.GetValues()[2] == "offline" { // nothing is known since then of what was as it should be
			state, health = lost(state, "converged", "offline"), lost(health, "good", "")
		}
		f.Instances.State[state] += int(g.GetCount())
		f.Instances.Health[health] += int(g.GetCount())
	}
	f.versions(a.versions.GetCounts())
	if a.tasks != nil {
		f.Tasks = map[string]int{}
		for _, g := range a.tasks.GetGroups() {
			f.Tasks[g.GetValues()[0]] = int(g.GetCount())
		}
	}
	for why, of := range map[string]*registryv1.CountServersResponse{
		code.ExpiredToken: a.expired, code.NoImageKeys: a.keyless,
	} {
		if n := int(of.GetCounts().GetTotal()); n > 0 {
			troubles[why] += n
		}
	}
	f.attention(a, troubles)
	slow := int(a.slow.GetTotal())
	if a.presence.GetPresenceHeld() != nil {
		slow = 0 // of servers that are silent it is not known how far they are
	}
	f.waiting(int(a.busy.GetCounts().GetTotal()), slow)
	f.owed(a.owing.GetRollouts())
	healed, _ := a.repaired()
	f.Waiting = appendPoint(f.Waiting, healed, "instance drifted, and its executor repairs it",
		"instances drifted, and their executors repair them", "garrison check")
	f.closed(a.environments.GetEnvironments(), a.at)
	return f
}

// lost returns what is known of a word while its server is offline: now, if it was as it should be.
func lost(word, asItShould, now string) string {
	if word == asItShould {
		return now
	}
	return word
}

func (f *Fleet) versions(c *registryv1.Counts) {
	for _, g := range c.GetGroups() {
		f.Versions = append(f.Versions, AgentVersion{g.GetValues()[0], g.GetValues()[1], int(g.GetCount())})
	}
	f.Others = int(c.GetOthers())
}

// appendPoint appends a point, unless its count is 0.
func appendPoint(to []AttentionPoint, n int, one, many, next string) []AttentionPoint {
	switch n {
	case 0:
		return to
	case 1:
		return append(to, AttentionPoint{n, one, next})
	}
	return append(to, AttentionPoint{n, many, next})
}

// certificateSoon is how long before its end the bus's certificate needs a person. garrisond renews its own ones when
// 30 days are left.
const certificateSoon = 14 * 24 * time.Hour

// attention lists what needs a person, the most urgent first.
func (f *Fleet) attention(a answers, troubles map[string]int) {
	f.controlPlane(a)
	add := func(n int, one, many, next string) { f.Attention = appendPoint(f.Attention, n, one, many, next) }
	add(f.Servers.Presence["offline"], "server is offline", "servers are offline",
		"garrison server list --presence offline")
	add(f.Instances.State["failed"], "instance failed to change", "instances failed to change",
		"garrison instance list --state failed")
	healed, ill := a.repaired()
	add(max(0, f.Instances.Health["bad"]-ill), "instance is not healthy", "instances are not healthy",
		"garrison instance list --health bad")
	add(max(0, f.Instances.State["drifted"]-healed), "instance drifted", "instances drifted", "garrison check")
	add(int(a.defaults.GetCounts().GetTotal()), "server waits for a default", "servers wait for a default",
		"garrison env default")
	add(len(a.stale.GetInstances()), "external instance has no recent report",
		"external instances have no recent report", "garrison instance list --stale")
	names := braked(a.environments.GetEnvironments())
	if len(names) > 0 {
		add(len(names), "environment heals no drift: "+names[0],
			"environments heal no drift: "+strings.Join(names, ", "), "garrison env show "+names[0])
	}
	if len(a.immovable) > 0 {
		add(len(a.immovable), "environment has a keep budget that lets no server change: "+a.immovable[0],
			"environments have keep budgets that let no server change: "+strings.Join(a.immovable, ", "),
			"garrison env show "+a.immovable[0])
	}
	add(len(a.rolloutsIn(rolloutv1.State_STATE_HALTED)), "rollout is halted", "rollouts are halted",
		"garrison rollout list --state halted")
	approve, resume := a.needing(rollout.NeedsApprove), a.needing(rollout.NeedsResume)
	add(len(approve), "rollout waits for an approval", "rollouts wait for an approval",
		oneOr(approve, "garrison rollout approve ", "garrison rollout list --state running"))
	add(len(resume), "rollout stopped after a wave", "rollouts stopped after a wave",
		oneOr(resume, "garrison rollout resume ", "garrison rollout list --state running"))
	stuck := a.immovableRollouts()
	add(len(stuck), "rollout waits for a keep budget that lets no server change",
		"rollouts wait for keep budgets that let no server change",
		oneOr(stuck, "garrison rollout show ", "garrison rollout list --state running"))
	add(len(a.rolloutsIn(rolloutv1.State_STATE_PAUSED)), "rollout is paused", "rollouts are paused",
		"garrison rollout list --state paused")
	f.builds(a)
	for _, code := range slices.Sorted(maps.Keys(troubles)) {
		add(troubles[code], "server has the trouble "+code, "servers have the trouble "+code,
			"garrison server list --trouble "+code)
	}
	add(f.Servers.Standing["quarantined"], "server is quarantined", "servers are quarantined",
		"garrison server list --standing quarantined")
	add(f.Servers.Standing["revoked"], "server has no valid credentials", "servers have no valid credentials",
		"garrison server list --standing revoked")
	add(len(a.unknown.GetServers()), "machine beats that is not under management",
		"machines beat that are not under management", "garrison server list --unknown")
	add(len(a.lobby.GetWaiting()), "machine waits in the lobby", "machines wait in the lobby",
		"garrison server list --lobby")
	add(int(a.leaked.GetCounts().GetTotal()), "dead server may still have Garrison files",
		"dead servers may still have Garrison files",
		"garrison server list --leaked")
	add(int(a.found.GetCounts().GetTotal()), "server has agents that Garrison did not install",
		"servers have agents that Garrison did not install",
		"garrison server list --found")
}

// repaired returns how many instances drifted that their executors repair by themselves, and how many of them are not
// healthy.
func (a answers) repaired() (all, ill int) {
	for _, g := range a.healed.GetCounts().GetGroups() {
		if g.GetValues()[0] != "heals" {
			continue
		}
		if all += int(g.GetCount()); g.GetValues()[1] == "bad" {
			ill += int(g.GetCount())
		}
	}
	return all, ill
}

// controlPlane lists what of the control plane needs a person.
func (f *Fleet) controlPlane(a answers) {
	add := func(n int, one, many, next string) { f.Attention = appendPoint(f.Attention, n, one, many, next) }
	if alarms := a.bus.GetAlarms(); len(alarms) > 0 {
		first := alarms[0].GetCause()
		add(len(alarms), "alarm of the bus: "+first, "alarms of the bus, the first: "+first, "garrison bus")
	}
	add(int(a.presence.GetPresenceHeld().GetSilent()), "server is silent, so presence is held",
		"servers are silent at once, so presence is held", "garrison server list --presence late")
	add(len(a.ahead.GetLosses()), "server is ahead of the ledger", "servers are ahead of the ledger",
		"garrison restore")
	if a.restored.GetRestored() != nil {
		add(1, "restore of a backup may have lost revocations", "", "garrison restore")
	}
	add(a.endsSoon(), "certificate of the bus is valid until "+a.certificateUntil.UTC().Format(time.DateOnly), "",
		"garrisond keys, or the files of garrisond --tls-cert")
	over := overBudget(a.writers.GetWriters())
	add(len(over), "user is over the budget of the ledger: "+strings.Join(over, ", "),
		"users are over the budget of the ledger: "+strings.Join(over, ", "), "garrison explain USER_BUDGET")
}

// builds lists the builds that need a person.
func (f *Fleet) builds(a answers) {
	add := func(n int, one, many, next string) { f.Attention = appendPoint(f.Attention, n, one, many, next) }
	n := 0
	for _, b := range a.blocks.GetBlocks() {
		if b.GetFailed() > 0 { // what a person blocked is decided
			n++
		}
	}
	add(n, "build failed and is blocked until garrison unblock or image delete",
		"builds failed and are blocked until garrison unblock or image delete", "garrison block list")
	if suspected := a.suspected.GetBlocks(); len(suspected) > 0 {
		add(len(suspected), "build failed and is not blocked: "+display.BuildText(suspected[0].GetBuild())+", "+
			suspected[0].GetReason(), "builds failed and are not blocked", "garrison block list --suspected")
	}
	add(len(a.untrusted.GetImages()), "active image is signed by no key of the catalog",
		"active images are signed by no key of the catalog", "garrison image list --state active --untrusted")
}

// endsSoon returns how many certificates of the bus end soon: 1 or 0.
func (a answers) endsSoon() int {
	if until := a.certificateUntil; until.IsZero() || until.Sub(a.at) >= certificateSoon {
		return 0
	}
	return 1
}

// overBudget returns the names of writers.
func overBudget(all []*registryv1.Writer) (names []string) {
	for _, w := range all {
		names = append(names, w.GetActor())
	}
	return names
}

// rolloutsIn returns the rollouts in a state.
func (a answers) rolloutsIn(state rolloutv1.State) (in []*rolloutv1.Rollout) {
	for _, r := range a.rollouts.GetRollouts() {
		if r.GetState() == state {
			in = append(in, r)
		}
	}
	return in
}

// needing returns the ids of the rollouts that run and wait for a person to do one thing.
func (a answers) needing(what rollout.Need) (ids []string) {
	for _, r := range a.rolloutsIn(rolloutv1.State_STATE_RUNNING) {
		if rollout.NeedAt(r, a.at) == what {
			ids = append(ids, r.GetId())
		}
	}
	return ids
}

// rolloutsNamed is how many rollouts a screen names.
const rolloutsNamed = 5

// underWay returns the rollouts that run or are paused, the newest first.
func (a answers) underWay() (lines []RolloutLine) {
	for _, r := range a.rollouts.GetRollouts() {
		if r.GetState() == rolloutv1.State_STATE_HALTED { // it needs a person, and is named there
			continue
		}
		line := RolloutLine{
			Id: r.GetId(), Title: display.RolloutTitle(r), State: display.RolloutState(r), Wave: display.RolloutWave(r),
		}
		if text := a.rollouts.GetWaits()[r.GetId()].GetText(); text != "" {
			line.State += ", waits for " + text
		}
		lines = append(lines, line)
	}
	return lines
}

// immovableRollouts returns the ids of the rollouts that run and that a keep budget never lets go on.
func (a answers) immovableRollouts() (ids []string) {
	for _, r := range a.rolloutsIn(rolloutv1.State_STATE_RUNNING) {
		if a.rollouts.GetWaits()[r.GetId()].GetImmovable() {
			ids = append(ids, r.GetId())
		}
	}
	return ids
}

// oneOr returns the command for the only id, or the command for several.
func oneOr(ids []string, one, several string) string {
	if len(ids) == 1 {
		return one + ident.Handle(ids[0])
	}
	return several
}

// closed lists the environments that are held or outside their windows; one alone with when it may open.
func (f *Fleet) closed(environments []*environmentv1.Environment, at time.Time) {
	var names []string
	one := ""
	for _, e := range environments {
		s := window.At(e, at)
		if s.Open {
			continue
		}
		names = append(names, e.GetName())
		if one = s.Why; !s.Until.IsZero() {
			one += ", until " + s.Until.UTC().Format(time.RFC3339)
		}
	}
	f.Waiting = appendPoint(f.Waiting, len(names), one, "environments are held or outside their windows: "+
		strings.Join(names, ", "), "garrison env list")
}

// waiting lists what ends by itself, at a limit at the latest.
func (f *Fleet) waiting(busy, slow int) {
	add := func(n int, one, many, next string) { f.Waiting = appendPoint(f.Waiting, n, one, many, next) }
	add(busy, "server is in a critical section, so changes wait",
		"servers are in a critical section, so changes wait", "garrison server list --condition busy")
	add(slow, "task takes much longer than usual", "tasks take much longer than usual", "garrison task list --slow")
}

// owed counts the changes that rollouts which succeeded owe to servers: each comes by itself once its server is back.
func (f *Fleet) owed(rollouts []*rolloutv1.Rollout) {
	n, next := 0, "garrison rollout list --owing"
	for _, r := range rollouts {
		n += int(display.Owed(r))
	}
	if len(rollouts) == 1 {
		next = "garrison rollout show " + ident.Handle(rollouts[0].GetId()) + " --servers --state owed"
	}
	f.Waiting = appendPoint(f.Waiting, n, "server is owed the change of a rollout, and gets it when it is back",
		"servers are owed the change of a rollout, and get it when they are back", next)
}
