package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

type record = *intentv1.Record

var recordListing = listing[record]{
	name: func(r record) string { return r.GetId() },
	columns: []column[record]{
		{title: "ID", value: func(_ view, r record) string { return r.GetId() }},
		{title: "ACTOR", value: func(_ view, r record) string { return r.GetActor() }},
		{title: "ASKED", value: func(_ view, r record) string { return intentText(r.GetIntent()) }},
		{title: "STATE", value: func(_ view, r record) string { return word(r.GetState()) }},
		{title: "SINCE", value: func(v view, r record) string { return age(v, r.GetDecidedAt()) }, key: func(r record) string { return stamp(r.GetDecidedAt()) }},
		{title: "NEXT", value: recordNext},
		{title: "REASON", value: func(_ view, r record) string { return recordReason(r) }},
		{title: "CHANGED", value: func(_ view, r record) string { return fmt.Sprint(r.GetChanged()) }},
		{title: "ALREADY", value: func(_ view, r record) string { return fmt.Sprint(r.GetAlready()) }},
		{title: "PASSED", value: func(_ view, r record) string { return fmt.Sprint(r.GetPassedOver()) }},
		{title: "LEFT OUT", value: func(_ view, r record) string { return fmt.Sprint(r.GetLeftOut()) }},
	},
}

func recordNext(_ view, r record) string {
	if r.GetState() == intentv1.State_STATE_ACCEPTED && r.GetChanged() > 0 && !r.GetIntent().GetDryRun() {
		return "garrison task list --intent " + r.GetId()
	}
	return ""
}

func recordReason(r record) string {
	if r.GetRefusal() == nil {
		return ""
	}
	return fault.Line(r.GetRefusal())
}

// intentText says an intent as it would be said on the command line.
func intentText(i *intentv1.Intent) string {
	var words []string
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		words = []string{"install", choiceText(ask.Install.GetAgent(), ask.Install.GetImage()), selectorArgs(ask.Install.GetOn())}
	case *intentv1.Intent_Upgrade:
		words = []string{"up", choiceText(ask.Upgrade.GetAgent(), ask.Upgrade.GetImage()), selectorArgs(ask.Upgrade.GetOn())}
	case *intentv1.Intent_Configure:
		words = []string{"configure", ask.Configure.GetAgent()}
		if args := configureArgs(ask.Configure); args != "" {
			words = append(words, args)
		}
		words = append(words, selectorArgs(ask.Configure.GetOn()))
	case *intentv1.Intent_Remove:
		words = []string{"remove", ask.Remove.GetAgent(), selectorArgs(ask.Remove.GetOn())}
	case *intentv1.Intent_Refresh:
		words = []string{"server refresh", selectorArgs(ask.Refresh.GetOn())}
	case *intentv1.Intent_Undo:
		words = []string{"undo", ask.Undo.GetIntentId()}
	case *intentv1.Intent_Decommission:
		words = []string{"server decommission", ask.Decommission.GetServer()}
		if ask.Decommission.GetLost() {
			words = append(words, "--lost")
		}
	default:
		return ""
	}
	if i.GetStrict() {
		words = append(words, "--strict")
	}
	if i.GetDryRun() {
		words = append(words, "--dry-run")
	}
	return strings.Join(words, " ")
}

func choiceText(agent string, c *intentv1.ImageChoice) string {
	for _, said := range []string{c.GetVersion(), c.GetImageId(), c.GetChannel()} {
		if said != "" {
			return agent + "@" + said
		}
	}
	return agent
}

func (s *session) intentCommands() *cobra.Command {
	return group("intent", "What was asked, and what became of it",
		s.intentListCommand(), s.intentShowCommand(), s.intentCancelCommand())
}

func (s *session) intentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show INTENT", Short: "Show what was asked, who asked, what was decided, and how far it is", Args: exactly("INTENT"),
		RunE: func(c *cobra.Command, a []string) error { return s.showIntent(c.Context(), a[0]) },
	}
}

func (s *session) showIntent(ctx context.Context, id string) error {
	r, err := s.getIntent(ctx, id, 0)
	if err != nil {
		return err
	}
	pairs := [][2]string{{"REASONS", strings.Join(reasonLines(r.GetReasons()), "\n")}, {"SERVERS", serversText(r)}}
	if s.output.isTable() {
		p, err := s.progressOf(ctx, r)
		if err != nil {
			s.say("how far it is, is not known: %v", err)
		}
		if p != nil {
			pairs = append(pairs, [2]string{"PROGRESS", progressText(p.GetCounts())})
		}
	}
	if r.GetWithdrawnAt() != nil {
		withdrawn := fmt.Sprintf("%s by %s %s", stamp(r.GetWithdrawnAt()), r.GetWithdrawnBy(), r.GetWithdrawnReason())
		pairs = append(pairs, [2]string{"WITHDRAWN", strings.TrimSpace(withdrawn)})
	}
	return showOne(s, s.view(), recordListing, r, pairs...)
}

// serversText lists the servers of an intent, and how many more there are.
func serversText(r record) string {
	text := strings.Join(r.GetServerIds(), "\n")
	if more := int(r.GetChanged()) - len(r.GetServerIds()); more > 0 && len(r.GetServerIds()) > 0 {
		text += fmt.Sprintf("\n… and %d more: garrison task list --intent %s --limit 0", more, r.GetId())
	}
	return text
}

// progressText sums up how far an intent is.
func progressText(c *dispatcherv1.IntentCounts) string {
	text := fmt.Sprintf("%d succeeded", c.GetSucceeded())
	for _, t := range countTexts(c) {
		text += ", " + t.text
	}
	if toCome(c) == 0 {
		text += "; nothing is to come"
	}
	return text
}

// intentVerbs are the verbs by which intents are listed.
var intentVerbs = func() []string {
	var out []string
	fields := (&intentv1.Intent{}).ProtoReflect().Descriptor().Oneofs().ByName("ask").Fields()
	for i := range fields.Len() {
		out = append(out, string(fields.Get(i).Name()))
	}
	return out
}()

func (s *session) intentListCommand() *cobra.Command {
	var page pageFlags
	var since time.Time
	q := &registryv1.ListIntentsRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List intents, the newest first", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !since.IsZero() {
				q.Since = timestamppb.New(since)
			}
			return s.listIntents(c.Context(), page, q)
		},
	}
	page.add(c, 100)
	textVar(c.Flags(), &q.Actor, "actor", said("actor"), "only intents of this `ACTOR`")
	textVar(c.Flags(), &q.Verb, "verb", oneOf("verb", intentVerbs), "only with this `VERB`: "+strings.Join(intentVerbs, ", "))
	wordVar(c.Flags(), &q.State, "state", "only in this `STATE`")
	c.Flags().Var(valueOf(&since, s.parseSince, func(time.Time) string { return "" }), "since",
		"only decided since a `TIME` (RFC 3339) or for so long (10m, 2h)")
	return c
}

func (s *session) listIntents(ctx context.Context, page pageFlags, q *registryv1.ListIntentsRequest) error {
	whole, err := collect(ctx, page, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListIntentsResponse, error) {
		q.Page = p
		return call[*registryv1.ListIntentsResponse](ctx, s, "ListIntents", q)
	})
	if err != nil {
		return err
	}
	if err := show(s, recordListing, whole, whole.GetIntents()); err != nil {
		return err
	}
	s.sayMore(whole)
	if n := whole.GetKept(); n > 0 && whole.GetNextCursor() == "" {
		s.say("the last %d intents are kept; older ones are in the ledger: garrison events --noun intent", n)
	}
	return nil
}

// reasonLines says why servers of an intent do not change, and names the first of them.
func reasonLines(reasons []*intentv1.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, fmt.Sprintf("%d %s: %s: %s", r.GetCount(), word(r.GetEffect()), reasonText(r.GetFirst()),
			strings.Join(r.GetServerIds(), ",")))
	}
	return out
}
