package operator

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

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
	return group("intent", "What was asked, and what became of it", &cobra.Command{
		Use: "show INTENT", Short: "Show what was asked, who asked, and what was decided", Args: exactly("INTENT"),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := s.getIntent(c.Context(), a[0], 0)
			if err != nil {
				return err
			}
			return showOne(s, s.view(), recordListing, r,
				[2]string{"REASONS", strings.Join(reasonLines(r.GetReasons()), "\n")},
				[2]string{"SERVERS", strings.Join(r.GetServerIds(), "\n")})
		},
	})
}

// reasonLines says why servers of an intent do not change, and names the first of them.
func reasonLines(reasons []*intentv1.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, fmt.Sprintf("%d %s: %s: %s", r.GetCount(), word(r.GetEffect()), reasonText(r.GetFirst()), strings.Join(r.GetServerIds(), ",")))
	}
	return out
}
