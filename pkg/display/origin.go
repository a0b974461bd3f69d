package display

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// ExplainWanted returns the row of who wanted what an instance is, since when, and by which intent. The record is nil
// when the registry no longer keeps the intent.
func ExplainWanted(r Instance, by Record) Explanation {
	i := r.GetInstance()
	row := Explanation{
		What: "wanted", Name: i.GetAgent(), Is: cmp.Or(i.GetWanted().GetVersion(), "nothing"),
		State: "by " + cmp.Or(by.GetActor(), "intent "+ident.Handle(i.GetIntentId())),
		Since: listing.Stamp(by.GetDecidedAt()),
		Next:  "garrison intent show " + ident.Handle(i.GetIntentId()),
	}
	if by == nil {
		row.Next = "garrison events --id " + i.GetIntentId()
		row.Reason = "the registry no longer keeps that intent"
		return row
	}
	row.Reason = BriefText(by.GetIntent())
	return row
}

// ExplainSource returns the row of the default from which an instance follows; d is nil when it is unset since.
func ExplainSource(source *intentv1.Source, d Default) Explanation {
	set := d.GetDefault()
	row := Explanation{
		What: "through", Name: "default of " + source.GetEnvironment(), State: "unset since",
		Next: "garrison env show " + source.GetEnvironment(),
	}
	if set == nil {
		return row
	}
	row.Is, row.State = ChoiceText(d.GetAgent(), set.GetImage())+" for "+ReachText(set.GetReach()), "by "+set.GetActor()
	row.Since = listing.Stamp(set.GetSetAt())
	if set.GetRevision() != source.GetRevision() {
		row.Reason = "the default was set again since the agent was installed through it"
	}
	return row
}

// ExplainRollout returns the row of the rollout that brought an instance.
func ExplainRollout(id string, by Record) Explanation {
	return Explanation{
		What: "through", Name: "rollout " + id, State: "by " + by.GetActor(), Since: listing.Stamp(by.GetDecidedAt()),
		Next: "garrison rollout show " + id,
	}
}

// ExplainCredentials returns the row of a server's credentials and their renewal; false for a server that has none, or
// whose credentials do not expire.
func ExplainCredentials(v listing.View, s Server) (row Explanation, ok bool) {
	since, until := s.GetCredentialsSince(), s.GetCredentialsExpireAt()
	if !Managed(s) || shutOut(s) || since == nil || until == nil {
		return row, false
	}
	renewal := timestamppb.New(since.AsTime().Add(until.AsTime().Sub(since.AsTime()) / 2))
	row = Explanation{
		What: "credentials", Name: s.GetName(), Is: "until " + listing.Stamp(until), State: "valid",
		Since: listing.Stamp(since),
		Next:  "its executor renews them " + listing.Until(v, renewal),
	}
	switch {
	case expired(v, s):
		row.State, row.Next = "expired", "garrison server enroll "+s.GetName()
	case !v.At.Before(renewal.AsTime()):
		row.Next = "its executor renews them as soon as it is online"
	}
	return row, true
}

// ExplainObserved returns the row of what a server lists of an instance: when it last differed, and until when it is
// known to have been true.
func ExplainObserved(v listing.View, r Instance) Explanation {
	i := r.GetInstance()
	row := Explanation{
		What: "observed", Name: i.GetAgent(), Is: cmp.Or(i.GetObserved().GetVersion(), "nothing"),
		State:  listing.Word(i.GetHealth()),
		Since:  listing.Stamp(i.GetObservedAt()),
		Reason: i.GetObservedReason(),
	}
	if at := i.GetConfirmedAt(); at != nil {
		row.Next = "confirmed " + listing.Age(v, at) + " ago"
	}
	return row
}

// ExplainDifference returns the row of a difference between what is wanted and what is there.
func ExplainDifference(v listing.View, d *registryv1.Difference) Explanation {
	next := d.GetCure()
	if at := d.GetNextAt(); at != nil {
		does := "repairs"
		if code.Restarted(d.GetCause()) {
			does = "starts"
		}
		next = "its executor " + does + " it " + listing.Until(v, at) + "; sooner: " + next
	}
	return Explanation{
		What: "differs", Name: cmp.Or(d.GetAgent(), d.GetServerName()), Is: d.GetObserved(), State: d.GetCause(),
		Since: listing.Stamp(d.GetSince()), Next: next, Reason: d.GetReason(),
	}
}

// ExplainNewest returns the row of the newest image of the channel that an agent on a server follows, from the plan to
// bring it there; false when the plan is about no image. The choice is that of the plan.
func ExplainNewest(
	s Server, plan *registryv1.PlanIntentResponse, choice *intentv1.ImageChoice,
) (row Explanation, ok bool) {
	if len(plan.GetPlans()) != 1 || len(plan.GetTargets()) != 1 {
		return row, false
	}
	p, t := plan.GetPlans()[0], plan.GetTargets()[0]
	verb := "up"
	if p.GetIntent().GetInstall() != nil {
		verb = "install"
	}
	row = Explanation{What: "newest", Name: t.GetAgent(), Is: "nothing", Reason: Reason(t.GetReason())}
	for _, c := range p.GetChosen() {
		row.Is = c.GetImage().GetVersion() + " of channel " + cmp.Or(choice.GetChannel(), c.GetChannel())
		if choice.GetChannel() == "" && c.GetChannel() == "" {
			row.Is = c.GetImage().GetVersion() + " of the default channel"
		}
	}
	switch t.GetEffect() {
	case intentv1.Effect_EFFECT_CHANGE:
		row.State = "wanted already"
		if brings(t.GetMove()) {
			row.State = "available"
			row.Next = "garrison " + verb + " " + ChoiceText(t.GetAgent(), choice) + " --on " + s.GetName()
		}
	case intentv1.Effect_EFFECT_ALREADY:
		row.State = "wanted already"
		if t.GetReason() != nil {
			row.State = "not taken"
		}
	default:
		row.State = "not possible"
		row.Next = strings.ReplaceAll(t.GetReason().GetTry(), "--on SELECTOR", "--on "+s.GetName())
	}
	return row, true
}

// brings reports whether a change brings another image than is wanted.
func brings(m intentv1.Move) bool {
	return m == intentv1.Move_MOVE_INSTALL || m == intentv1.Move_MOVE_UPGRADE || m == intentv1.Move_MOVE_DOWNGRADE
}

// ExplainSessions returns the row of a server's connections when another machine may use its credentials: they come
// from several addresses, or surplus ones were ended.
func ExplainSessions(s Server, r *accessv1.ServerSessions) (e Explanation, suspicious bool) {
	var hosts []string
	for _, session := range r.GetSessions() {
		host, _, err := net.SplitHostPort(session.GetAddress())
		if err != nil {
			host = session.GetAddress()
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 || len(hosts) == 1 && r.GetEnded() == 0 {
		return e, false
	}
	newest := r.GetSessions()[len(r.GetSessions())-1].GetSince()
	e = Explanation{
		What: "connections", Name: s.GetName(), State: "open",
		Is:     fmt.Sprintf("%d from %s", len(r.GetSessions()), strings.Join(hosts, ", ")),
		Since:  listing.Stamp(newest),
		Next:   fmt.Sprintf("garrison server revoke %s, then garrison server enroll %s", s.GetName(), s.GetName()),
		Reason: "another machine may use its credentials",
	}
	if r.GetEnded() > 0 {
		e.Reason += fmt.Sprintf("; surplus connections ended: %d", r.GetEnded())
	}
	return e, true
}
