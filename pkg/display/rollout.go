package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Rollout is a rollout as the registry returns it.
type Rollout = *rolloutv1.Rollout

// Rollouts lists rollouts.
var Rollouts = listing.Listing[Rollout]{
	Name: Rollout.GetId,
	Columns: []listing.Column[Rollout]{
		{Title: "ID", Value: func(v listing.View, r Rollout) string { return listing.ShortID(v, r.GetId()) }},
		listing.Col("BRINGS", RolloutTitle),
		listing.Col("STATE", RolloutState),
		listing.Since("SINCE", Rollout.GetSince),
		listing.Col("WAVE", RolloutWave),
		listing.Col("SERVERS", func(r Rollout) string { return listing.Count(uint64(servers(r))) }).Numeric(),
		listing.Wide("SUCCEEDED", func(r Rollout) string {
			return inState(r, rolloutv1.TargetState_TARGET_STATE_SUCCEEDED)
		}).Numeric(),
		listing.Col("BROKEN", func(r Rollout) string {
			return inState(r, rolloutv1.TargetState_TARGET_STATE_BROKEN)
		}).Numeric(),
		listing.Col("OWED", func(r Rollout) string {
			return inState(r, rolloutv1.TargetState_TARGET_STATE_OWED)
		}).Numeric(),
		{Title: waitsFor, Value: func(v listing.View, r Rollout) string { return rollout.NeedText(r, v.At) }},
		listing.Col("BY", Rollout.GetActor),
		listing.Wide("REASON", func(r Rollout) string { return Reason(r.GetReason()) }),
	},
}

const waitsFor = "WAITS FOR"

// RolloutPage is the columns of the page of one rollout, with everything that it waits for.
func RolloutPage(r *registryv1.GetRolloutResponse) listing.Listing[Rollout] {
	return RolloutsWaiting(func(Rollout) string { return r.GetWaitsFor() })
}

// RolloutsWaiting is the columns of rollouts, with what each waits for; where that is empty, what it needs of a person.
func RolloutsWaiting(text func(Rollout) string) listing.Listing[Rollout] {
	page := listing.Listing[Rollout]{Name: Rollouts.Name, Columns: slices.Clone(Rollouts.Columns)}
	for n, c := range page.Columns {
		if c.Title == waitsFor {
			page.Columns[n].Value = func(v listing.View, r Rollout) string { return cmp.Or(text(r), c.Value(v, r)) }
		}
	}
	return page
}

// RolloutState returns the state of a rollout; of one that succeeded, also how many servers it left out.
func RolloutState(r Rollout) string {
	return listing.Word(r.GetState()) + leftOutText(r.GetState(), LeftOut(r))
}

// leftOutText returns how many servers a rollout left out that succeeded; empty for none.
func leftOutText(s rolloutv1.State, n uint32) string {
	if s != rolloutv1.State_STATE_SUCCEEDED || n == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d left out", n)
}

// RolloutTitle returns what a rollout brings, marked when it goes the emergency lane, and with its start until it
// began.
func RolloutTitle(r Rollout) string {
	text := InLane(r.GetTitle(), r.GetStrategy())
	if rollout.Scheduled(r) {
		text = "starts " + listing.Stamp(r.GetStartAt()) + ": " + text
	}
	return text
}

// InLane marks what is said of a rollout when it goes the emergency lane.
func InLane(text string, s *rolloutv1.Strategy) string {
	switch {
	case !s.GetEmergency():
		return text
	case text == "":
		return "emergency"
	}
	return "emergency: " + text
}

// RolloutWave returns the wave that is open or next, of all.
func RolloutWave(r Rollout) string {
	passed := 0
	for _, w := range r.GetWaves() {
		if w.GetPassedAt() != nil {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", min(passed+1, len(r.GetWaves())), len(r.GetWaves()))
}

func allWaves(r Rollout) []*rolloutv1.Wave {
	if r.GetOwed() == nil {
		return r.GetWaves()
	}
	return append([]*rolloutv1.Wave{r.GetOwed()}, r.GetWaves()...)
}

func servers(r Rollout) (n uint32) {
	for _, w := range allWaves(r) {
		n += w.GetServers()
	}
	return n
}

func inState(r Rollout, s rolloutv1.TargetState) string {
	return listing.Count(count(r, s))
}

// Broken returns how many servers of a rollout are broken.
func Broken(r Rollout) uint32 { return count(r, rolloutv1.TargetState_TARGET_STATE_BROKEN) }

// LeftOut returns how many servers of its plan a rollout left out.
func LeftOut(r Rollout) uint32 { return count(r, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT) }

// Owed returns how many servers a rollout owes its change: it reaches each by itself once that server is back.
func Owed(r Rollout) uint32 { return count(r, rolloutv1.TargetState_TARGET_STATE_OWED) }

func count(r Rollout, s rolloutv1.TargetState) uint32 { return rollout.InState(r, s) }

// WaveText returns a wave as a bar with its counts.
func WaveText(number uint32, w *rolloutv1.Wave, of int) string {
	text := fmt.Sprintf("wave %d/%d %s %s", number, of, listing.Bar(uint64(ended(w)), uint64(w.GetServers())),
		listing.Plural(int(w.GetServers()), "server"))
	return text + countsText(func(s rolloutv1.TargetState) uint32 { return w.GetCounts()[uint32(s)] })
}

// WaveBar returns a wave as a bar with how many of its servers ended, short enough for a narrow terminal.
func WaveBar(number int, w *rolloutv1.Wave, of int) string {
	text := fmt.Sprintf("wave %d/%d %s %d of %d", number, of,
		listing.Bar(uint64(ended(w)), uint64(w.GetServers())), ended(w), w.GetServers())
	switch {
	case w.GetPassedAt() != nil:
		text += ", passed"
	case w.GetOpenedAt() == nil:
		text += ", has not begun"
	}
	return text
}

// CountsText returns how many servers a rollout has, and how many are in each state.
func CountsText(r Rollout) string {
	return listing.Plural(int(servers(r)), "server") +
		countsText(func(s rolloutv1.TargetState) uint32 { return count(r, s) })
}

// Ended returns how many servers of a rollout have nothing more to do.
func Ended(r Rollout) (n uint32) {
	for _, w := range allWaves(r) {
		n += ended(w)
	}
	return n
}

// ended returns how many servers of a wave are neither pending nor under way.
func ended(w *rolloutv1.Wave) uint32 {
	open := w.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_PENDING)] +
		w.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_REACHED)]
	return w.GetServers() - min(open, w.GetServers())
}

// countsText returns the counts above 0, each behind a comma.
func countsText(count func(rolloutv1.TargetState) uint32) (text string) {
	for s := rolloutv1.TargetState_TARGET_STATE_PENDING; s <= rolloutv1.TargetState_TARGET_STATE_GONE; s++ {
		if n := count(s); n > 0 {
			text += fmt.Sprintf(", %d %s", n, listing.Word(s))
		}
	}
	return text
}

// RolloutReason returns a reason with how many servers it is about. Its text names the step that failed.
func RolloutReason(r *registryv1.RolloutReason) string {
	text := fmt.Sprintf("%d × ", r.GetCount())
	if r.GetCode() != "" {
		text += r.GetCode() + ": "
	}
	text += cmp.Or(r.GetFirst(), "no reason is recorded")
	names := strings.Join(r.GetServerNames()[:min(3, len(r.GetServerNames()))], ", ")
	if more := int(r.GetCount()) - 3; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return text + " (" + names + ")"
}

// FetchedAheadText returns how many servers fetched ahead what a rollout brings them; "" where none was asked to.
func FetchedAheadText(r *rolloutv1.Rollout) string {
	if r.GetPrimed() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %s", r.GetFetchedAhead(), listing.Plural(int(r.GetPrimed()), "server"))
	if n := r.GetNotFetchedAhead(); n > 0 {
		text += fmt.Sprintf("; %d did not, and fetch with the change", n)
	}
	return text
}

// undoneBy returns which rollout undoes another one, and how far it came.
func undoneBy(r, undo Rollout) string {
	text := r.GetUndoneBy()
	switch undo.GetState() {
	case 0:
		return text
	case rolloutv1.State_STATE_SUCCEEDED:
		if left := leftOutText(undo.GetState(), count(undo, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT)); left != "" {
			text += ", which succeeded" + left
		}
		return text
	case rolloutv1.State_STATE_ABORTED:
		return text + ", which was aborted; to take back what is left: " + UndoRollout(r)
	case rolloutv1.State_STATE_UNDONE:
		return text + ", which was undone"
	}
	return text + ", which is " + listing.Word(undo.GetState())
}

// RolloutPairs returns what a rollout's page shows beside its row; undo is the rollout that undoes it, or nil.
func RolloutPairs(v listing.View, r *registryv1.GetRolloutResponse, undo Rollout) (pairs [][2]string) {
	ro := r.GetRollout()
	add := func(title, text string) {
		if text != "" {
			pairs = append(pairs, [2]string{title, text})
		}
	}
	var waves []string
	for n, w := range ro.GetWaves() {
		line := WaveText(uint32(n)+1, w, len(ro.GetWaves()))
		switch {
		case w.GetPassedAt() != nil:
			line += "; passed " + listing.Stamp(w.GetPassedAt())
		case w.GetOpenedAt() != nil:
			line += "; began " + listing.Stamp(w.GetOpenedAt())
		}
		if w.GetApprovedBy() != "" {
			line += "; approved by " + w.GetApprovedBy()
		}
		if stages := ro.GetStrategy().GetStages(); n < len(stages) && stages[n].GetOf() != nil {
			line += "; " + rollout.StageText(stages[n])
		}
		waves = append(waves, line)
	}
	add("WHY", r.GetNote())
	if ro.GetStartAt() != nil {
		add("STARTS", listing.Stamp(ro.GetStartAt()))
	}
	add("WAVES", strings.Join(waves, "\n"))
	add("FETCHED AHEAD", FetchedAheadText(ro))
	if n := r.GetUnused(); n > 0 {
		add("NOT USED", fmt.Sprintf("%s may keep at most %s that were fetched ahead, for 30 days at most; to free it: "+
			"garrison undo --purge --on SELECTOR", listing.Plural(int(n), "server"), listing.Size(r.GetUnusedBytes())))
	}
	add("THEN", thenState(ro))
	add("LEFT", LeftText(r, v.At))
	var slow []string
	for _, s := range r.GetSlow() {
		slow = append(slow, SlowText(s))
	}
	if more := int(r.GetSlowCount()) - len(slow); more > 0 {
		slow = append(slow, fmt.Sprintf("… and %d more", more))
	}
	add("SLOW", strings.Join(slow, "\n"))
	var reasons []string
	for _, reason := range r.GetReasons() {
		state := listing.Word(reason.GetState())
		if reason.GetBack() {
			state += ", and back at what it had"
		}
		reasons = append(reasons, state+": "+RolloutReason(reason))
	}
	add("SERVERS THAT DIFFER", strings.Join(reasons, "\n"))
	add("STEERED BY", ro.GetSteeredBy())
	add("UNDOES", ro.GetUndoes())
	add("UNDONE BY", undoneBy(ro, undo))
	add("HISTORY", "garrison events --id "+ident.Handle(ro.GetId())+" --noun rollout")
	return pairs
}

// RolloutTarget is one server of a rollout.
type RolloutTarget = *registryv1.RolloutTarget

// RolloutTargets lists the servers of a rollout.
var RolloutTargets = listing.Listing[RolloutTarget]{
	Name: func(t RolloutTarget) string { return t.GetTarget().GetServerId() },
	Columns: []listing.Column[RolloutTarget]{
		listing.Col("SERVER", RolloutTarget.GetServerName),
		listing.Col("WAVE", func(t RolloutTarget) string {
			if t.GetTarget().GetWave() == 0 {
				return "owed"
			}
			return fmt.Sprint(t.GetTarget().GetWave())
		}),
		listing.Col("CHANGE", func(t RolloutTarget) string { return ChangesText(t.GetTarget()) }),
		listing.Col("STATE", func(t RolloutTarget) string {
			switch {
			case t.GetTarget().GetState() == 0:
				return "planned"
			case t.GetStep() != "":
				return t.GetStep()
			}
			return listing.Word(t.GetTarget().GetState())
		}),
		listing.Col("REASON", func(t RolloutTarget) string {
			switch {
			case t.GetWaitsFor() != "":
				return t.GetWaitsFor()
			case t.GetTarget().GetReason() == nil:
				return t.GetTarget().GetBecause()
			}
			return Reason(t.GetTarget().GetReason())
		}),
		listing.Wide("ID", func(t RolloutTarget) string { return t.GetTarget().GetServerId() }),
		listing.Wide("RESTORED BY", func(t RolloutTarget) string { return t.GetTarget().GetRestoredBy() }),
	},
}

// ChangesText returns what changes on a server.
func ChangesText(t *rolloutv1.Target) string {
	var parts []string
	for _, c := range t.GetChanges() {
		parts = append(parts, changeText(c))
	}
	return strings.Join(parts, ", ")
}

func changeText(c *rolloutv1.Change) string {
	from, to := c.GetFrom().GetVersion(), c.GetTo().GetVersion()
	switch {
	case c.GetRepair():
		return c.GetAgent() + " " + to + " again"
	case c.GetFrom() == nil:
		return c.GetAgent() + " comes at " + to
	case c.GetTo() == nil:
		return c.GetAgent() + " " + from + " goes"
	case from == to:
		return c.GetAgent() + " " + to + " configured"
	}
	return c.GetAgent() + " " + from + " → " + to
}

// ValueChange returns a change of a value, from what to what, and on how many servers.
func ValueChange(v *registryv1.ValueChange) string {
	from, to := "no value", "no value"
	if v.From != nil {
		from = listing.Quote(v.GetFrom())
	}
	if v.To != nil {
		to = listing.Quote(v.GetTo())
	}
	return fmt.Sprintf("%s: %s %s → %s on %s", v.GetAgent(), v.GetName(), from, to,
		listing.Plural(int(v.GetServers()), "server"))
}

// ThenText returns what a rollout ends with.
func ThenText(then []*rolloutv1.Standing) string {
	var parts []string
	for _, s := range then {
		if d := s.GetDefault(); d != nil {
			parts = append(parts, "default "+d.GetAgent()+" of environment "+d.GetEnvironment())
			continue
		}
		parts = append(parts, listing.Plural(len(s.GetPromotion().GetImageIds()), "image")+" to channel "+
			s.GetPromotion().GetChannel())
	}
	return strings.Join(parts, ", ")
}

// thenState returns what a rollout ends with, and what became of it.
func thenState(r Rollout) string {
	text := ThenText(r.GetThen())
	switch {
	case text == "":
	case r.GetState() == rolloutv1.State_STATE_SUCCEEDED:
		text += ": recorded"
	case r.GetState() == rolloutv1.State_STATE_UNDONE:
		text += ": taken back, or never recorded"
	default:
		text += ": recorded once every wave passed"
	}
	return text
}
