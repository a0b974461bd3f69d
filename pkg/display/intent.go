package display

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/selection"
)

// configureArgs returns the flags of garrison configure that set an intent's values.
func configureArgs(q *intentv1.Configure) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(q.GetSet())) {
		if secret.IsSealed(q.Set[k]) {
			words = append(words, "--set-secret "+listing.Quote(k+"="+secret.Text(q.Set[k])))
			continue
		}
		flag := "--set "
		if metadata.IsNested(q.Set[k]) {
			flag = "--set-json "
		}
		words = append(words, flag+listing.Quote(k+"="+metadata.Text(q.Set[k])))
	}
	for _, k := range q.GetUnset() {
		words = append(words, "--unset "+k)
	}
	if q.GetReplace() {
		words = append(words, "--replace")
	}
	if q.IfRevision != nil {
		words = append(words, "--if-revision "+strconv.FormatUint(q.GetIfRevision(), 10))
	}
	if q.GetBringWanted() {
		words = append(words, "--bring-wanted")
	}
	return strings.Join(words, " ")
}

// Record is an intent with the decision about it.
type Record = *intentv1.Record

// changed is the column of how many servers an intent changes.
var changed = listing.Col("CHANGED", func(r Record) string { return fmt.Sprint(r.GetChanged()) }).Numeric()

// Records lists intents.
var Records = listing.Listing[Record]{
	Name: func(r Record) string { return r.GetId() },
	Columns: []listing.Column[Record]{
		{Title: "ID", Value: func(v listing.View, r Record) string { return listing.ShortID(v, r.GetId()) }},
		listing.Col("ACTOR", Record.GetActor),
		{Title: "ASKED", Value: func(v listing.View, r Record) string {
			if v.Wide {
				return IntentText(r.GetIntent())
			}
			return BriefText(r.GetIntent())
		}},
		listing.Col("STATE", func(r Record) string { return listing.Word(r.GetState()) }),
		listing.Since("SINCE", Record.GetDecidedAt),
		{Title: "NEXT", Wide: true, Value: recordNext},
		listing.Col("REASON", recordReason),
		changed,
		listing.Wide("ALREADY", func(r Record) string { return fmt.Sprint(r.GetAlready()) }).Numeric(),
		listing.Wide("PASSED", func(r Record) string { return fmt.Sprint(r.GetPassedOver()) }).Numeric(),
		listing.Col("LEFT OUT", func(r Record) string { return fmt.Sprint(r.GetLeftOut()) }).Numeric(),
	},
}

// RecordsWith lists intents with what became of their changes, in place of their number and their state.
func RecordsWith(outcome func(Record) string) listing.Listing[Record] {
	l := listing.Listing[Record]{Name: Records.Name}
	for _, c := range Records.Columns {
		c.Wide = c.Wide || c.Title == changed.Title || c.Title == "STATE"
		if l.Columns = append(l.Columns, c); c.Title == "STATE" {
			l.Columns = append(l.Columns, listing.Col("OUTCOME", func(r Record) string {
				return cmp.Or(outcome(r), listing.Word(r.GetState()))
			}))
		}
	}
	return l
}

// OutcomeText returns how many changes of an intent succeeded, and how many did not.
func OutcomeText(c *dispatcherv1.IntentCounts) string {
	switch {
	case Changes(c) == 0:
		return ""
	case Failed(c) > 0:
		return fmt.Sprintf("%d ok, %d failed", c.GetSucceeded(), Failed(c))
	}
	return fmt.Sprintf("%d of %d ok", c.GetSucceeded(), Changes(c))
}

func recordNext(_ listing.View, r Record) string {
	if r.GetState() == intentv1.State_STATE_ACCEPTED && r.GetChanged() > 0 && !r.GetIntent().GetDryRun() {
		return TasksOf(r)
	}
	return ""
}

// TasksOf returns the command that lists the tasks of an intent.
func TasksOf(r Record) string {
	if r.GetIntent().GetRollout() != nil {
		return "garrison task list --rollout " + ident.Handle(r.GetId())
	}
	return "garrison task list --intent " + ident.Handle(r.GetId())
}

func recordReason(r Record) string {
	if r.GetRefusal() == nil {
		return ""
	}
	return fault.Line(r.GetRefusal())
}

// mostNamed is how many servers of an intent are named where it has one line.
const mostNamed = 3

// BriefText is IntentText with the number of the servers in place of many, and the handles of other intents. An intent
// of a rollout begins with its wave and ends with the rollout, so that a narrow column shows what it brings.
func BriefText(i *intentv1.Intent) string {
	brief := proto.CloneOf(i)
	if u := brief.GetUndo(); u != nil {
		u.IntentId = ident.Handle(u.IntentId)
	}
	if r := brief.GetRollout(); r != nil {
		r.UndoOf = ident.Handle(r.UndoOf)
	}
	source := brief.GetSource()
	rolled := source.GetRolloutId() != ""
	if rolled { // it names servers and images by id, which say nothing to a person
		brief.Source = nil
		nameVersion(brief, source.GetVersion())
	}
	on := selectorOf(brief)
	servers := len(on.GetServers())
	if servers > 0 && (rolled || servers > mostNamed) {
		on.Servers = []string{"MANY"}
	}
	text := strings.Replace(IntentText(brief), "--on MANY", "on "+listing.Plural(servers, "server"), 1)
	if !rolled {
		return text
	}
	for _, verb := range []string{"up ", "rollout start --"} { // the second of a repair, which has no other command
		text = strings.TrimPrefix(text, verb)
	}
	text += ", rollout " + ident.Handle(source.GetRolloutId())
	switch {
	case source.GetWave() > 0:
		return fmt.Sprintf("wave %d: %s", source.GetWave(), text)
	case brief.GetRefresh() != nil:
		return text
	}
	return "owed: " + text
}

// nameVersion puts a version in place of the id of the image that an intent brings.
func nameVersion(i *intentv1.Intent, version string) {
	var by *intentv1.ImageChoice
	if version != "" {
		by = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	}
	if u := i.GetUpgrade(); u.GetImage().GetImageId() != "" {
		u.Image = by
	}
	if q := i.GetInstall(); q.GetImage().GetImageId() != "" {
		q.Image = by
	}
}

// selectorOf returns the selector of an intent; nil without one.
func selectorOf(i *intentv1.Intent) *intentv1.Selector {
	m := i.ProtoReflect()
	ask := m.WhichOneof(m.Descriptor().Oneofs().ByName("ask"))
	if ask == nil || ask.Message().Fields().ByName("on") == nil {
		return nil
	}
	asked := m.Get(ask).Message()
	on, _ := asked.Get(ask.Message().Fields().ByName("on")).Message().Interface().(*intentv1.Selector)
	return on
}

// IntentText returns the command line that asks for an intent.
func IntentText(i *intentv1.Intent) string {
	words := askWords(i)
	if len(words) == 0 {
		return ""
	}
	if i.GetStrict() {
		words = append(words, "--strict")
	}
	if i.GetOverride() || i.GetRollout().GetStrategy().GetOverride() {
		words = append(words, "--override")
	}
	if i.GetNote() != "" {
		words = append(words, "-m "+listing.Quote(i.GetNote()))
	}
	if i.GetDryRun() {
		words = append(words, "--dry-run")
	}
	switch source := i.GetSource(); {
	case source.GetRolloutId() != "":
		words = append(words, "by rollout "+source.GetRolloutId())
	case source != nil:
		words = append(words, "by the default of environment "+source.GetEnvironment())
	}
	return strings.Join(words, " ")
}

// askWords returns the verb of an intent and its arguments; nothing for one that is not known.
func askWords(i *intentv1.Intent) (words []string) {
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		words = []string{"install", ChoiceText(ask.Install.GetAgent(),
			ask.Install.GetImage()), selection.Args(ask.Install.GetOn())}
	case *intentv1.Intent_Upgrade:
		words = upgradeWords(ask.Upgrade)
	case *intentv1.Intent_Configure:
		words = []string{"configure", ask.Configure.GetAgent()}
		if ask.Configure.GetRepair() {
			words[0] = "rollout start --repair"
		}
		if args := configureArgs(ask.Configure); args != "" {
			words = append(words, args)
		}
		words = append(words, selection.Args(ask.Configure.GetOn()))
	case *intentv1.Intent_Remove:
		words = []string{"remove", ask.Remove.GetAgent(), selection.Args(ask.Remove.GetOn())}
	case *intentv1.Intent_Refresh:
		words = []string{refreshVerb(ask.Refresh), selection.Args(ask.Refresh.GetOn())}
	case *intentv1.Intent_Adopt:
		words = []string{
			"instance adopt", ident.Handle(ask.Adopt.GetServer()), ask.Adopt.GetCandidate(), "--as",
			ChoiceText(ask.Adopt.GetAgent(), ask.Adopt.GetImage()),
		}
	case *intentv1.Intent_Release:
		words = []string{"instance release", ident.Handle(ask.Release.GetServer()), ask.Release.GetAgent()}
	case *intentv1.Intent_Reinstall:
		words = []string{"server reinstall", ident.Handle(ask.Reinstall.GetServer())}
	case *intentv1.Intent_Undo:
		words = []string{"undo", ask.Undo.GetIntentId()}
	case *intentv1.Intent_Rollout:
		words = rolloutWords(ask.Rollout)
	case *intentv1.Intent_Decommission:
		words = decommissionWords(ask.Decommission)
	}
	return words
}

// upgradeWords returns the command that asks for an upgrade or a restart.
func upgradeWords(q *intentv1.Upgrade) []string {
	words := []string{"up", ChoiceText(q.GetAgent(), q.GetImage()), selection.Args(q.GetOn())}
	switch {
	case Restarts(q):
		words[0] = "restart"
	case q.GetAgain():
		words = append(words, "--again")
	}
	return words
}

// decommissionWords returns the command that asks for a decommission.
func decommissionWords(q *intentv1.Decommission) []string {
	words := []string{"server decommission", ident.Handle(q.GetServer())}
	if on := q.GetOn(); on != nil {
		words[1] = selection.Args(on)
	}
	if q.GetLost() {
		words = append(words, "--lost")
	}
	return words
}

// rolloutWords returns the command that asks for a rollout, without its strategy.
func rolloutWords(q *intentv1.Rollout) []string {
	if q.GetUndoOf() != "" {
		return []string{"undo", q.GetUndoOf()}
	}
	words, flags := []string{"rollout start"}, []string{}
	for _, s := range q.GetSteps() {
		word, flag := stepWords(s)
		words = append(words, word)
		if flag != "" && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	if q.GetTitle() != "" {
		flags = append(flags, "--title "+listing.Quote(q.GetTitle()))
	}
	return append(append(words, flags...), selection.Args(q.GetOn()))
}

// stepWords returns the arguments that ask for a step of a rollout, and the flag for all steps of its kind.
func stepWords(s *intentv1.Step) (words, flag string) {
	switch c := s.GetChange().(type) {
	case *intentv1.Step_Install:
		return ChoiceText(c.Install.GetAgent(), c.Install.GetImage()), "--install"
	case *intentv1.Step_Remove:
		return c.Remove.GetAgent(), "--remove"
	case *intentv1.Step_Configure:
		if c.Configure.GetRepair() {
			return c.Configure.GetAgent(), "--repair"
		}
		return strings.TrimSpace("--configure " + c.Configure.GetAgent() + " " + configureArgs(c.Configure)), ""
	}
	if s.GetUpgrade().GetAgain() {
		flag = "--again"
	}
	return ChoiceText(s.GetUpgrade().GetAgent(), s.GetUpgrade().GetImage()), flag
}

// Restarts reports whether an upgrade starts an agent again and brings nothing.
func Restarts(u *intentv1.Upgrade) bool { return u.GetAgain() && u.GetImage() == nil }

// UndoCommand returns the command that undoes an intent or a rollout. What passed a closed environment goes back
// through it as well.
func UndoCommand(id string, override bool) string {
	command := "garrison undo " + ident.Handle(id)
	if override {
		command += " --override"
	}
	return command
}

// UndoRollout returns the command that undoes a rollout.
func UndoRollout(r Rollout) string { return UndoCommand(r.GetId(), r.GetStrategy().GetOverride()) }

// purgeVerb is the command that deletes the versions which servers keep for a way back.
const purgeVerb = "undo --purge"

// aheadVerb is what a rollout asks of servers that may not be changed yet.
const aheadVerb = "fetch ahead"

// refreshVerb returns the command that asks for a refresh.
func refreshVerb(q *intentv1.Refresh) string {
	switch {
	case q.GetAhead() != nil:
		return aheadVerb + " " + q.GetAhead().GetImage().GetVersion()
	case q.GetScan() != nil:
		return "server refresh --scan"
	case q.GetPurgeKept():
		return purgeVerb
	}
	return "server refresh"
}

// ChoiceText returns an agent and the choice of its image, as a command line has them.
func ChoiceText(agent string, c *intentv1.ImageChoice) string {
	for _, said := range []string{c.GetVersion(), c.GetImageId(), c.GetChannel()} {
		if said != "" {
			return agent + "@" + said
		}
	}
	return agent
}

// ReasonLines returns why servers of an intent do not change, with the first of them.
func ReasonLines(reasons []*intentv1.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, fmt.Sprintf("%d %s: %s: %s", r.GetCount(), listing.Word(r.GetEffect()), Reason(r.GetFirst()),
			strings.Join(r.GetServerIds(), ",")))
	}
	return out
}

// Reason formats a refusal as CODE: message, and what a person said, which has no code, as the message alone.
func Reason(r *apiv1.Refusal) string {
	if r.GetCode() == "" {
		return r.GetMessage()
	}
	return r.GetCode() + ": " + r.GetMessage()
}
