package display

import (
	"cmp"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// ExplainWanted returns the row of who wanted what an instance is, since when, and by which intent. The record is nil
// when the registry no longer keeps the intent.
func ExplainWanted(v output.View, r Instance, by Record) Explanation {
	i := r.GetInstance()
	row := Explanation{
		What: "wanted", Name: i.GetAgent(), Is: cmp.Or(i.GetWanted().GetVersion(), "nothing"),
		State: "by " + cmp.Or(by.GetActor(), "intent "+ident.Short(i.GetIntentId())),
		Since: output.Stamp(by.GetDecidedAt()), Age: output.Age(v, by.GetDecidedAt()),
		Next: "garrison intent show " + i.GetIntentId(),
	}
	if by == nil {
		row.Next = "garrison events --id " + i.GetIntentId()
		row.Reason = "the registry no longer keeps that intent"
		return row
	}
	row.Reason = IntentText(by.GetIntent())
	return row
}

// ExplainSource returns the row of the default from which an instance follows; d is nil when it is unset since.
func ExplainSource(v output.View, source *intentv1.Source, d Default) Explanation {
	set := d.GetDefault()
	row := Explanation{
		What: "through", Name: "default of " + source.GetEnvironment(), State: "unset since",
		Next: "garrison env show " + source.GetEnvironment(),
	}
	if set == nil {
		return row
	}
	row.Is, row.State = ChoiceText(d.GetAgent(), set.GetImage())+" for "+ReachText(set.GetReach()), "by "+set.GetActor()
	row.Since, row.Age = output.Stamp(set.GetSetAt()), output.Age(v, set.GetSetAt())
	if set.GetRevision() != source.GetRevision() {
		row.Reason = "the default was set again since the agent was installed through it"
	}
	return row
}

// ExplainRollout returns the row of the rollout that brought an instance.
func ExplainRollout(v output.View, id string, by Record) Explanation {
	return Explanation{
		What: "through", Name: "rollout " + id, State: "by " + by.GetActor(), Since: output.Stamp(by.GetDecidedAt()),
		Age: output.Age(v, by.GetDecidedAt()), Next: "garrison rollout show " + id,
	}
}

// ExplainCredentials returns the row of a server's credentials and their renewal; false for a server that has none, or
// whose credentials do not expire.
func ExplainCredentials(v output.View, s Server) (row Explanation, ok bool) {
	since, until := s.GetCredentialsSince(), s.GetCredentialsExpireAt()
	if !Managed(s) || shutOut(s) || since == nil || until == nil {
		return row, false
	}
	renewal := timestamppb.New(since.AsTime().Add(until.AsTime().Sub(since.AsTime()) / 2))
	row = Explanation{
		What: "credentials", Name: s.GetName(), Is: "until " + output.Stamp(until), State: "valid",
		Since: output.Stamp(since), Age: output.Age(v, since),
		Next: "its executor renews them " + output.Until(v, renewal),
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
func ExplainObserved(v output.View, r Instance) Explanation {
	i := r.GetInstance()
	row := Explanation{
		What: "observed", Name: i.GetAgent(), Is: cmp.Or(i.GetObserved().GetVersion(), "nothing"),
		State: output.Word(i.GetHealth()),
		Since: output.Stamp(i.GetObservedAt()), Age: output.Age(v, i.GetObservedAt()),
		Reason: i.GetObservedReason(),
	}
	if at := i.GetConfirmedAt(); at != nil {
		row.Next = "confirmed " + output.Age(v, at) + " ago"
	}
	return row
}

// ExplainDifference returns the row of a difference between what is wanted and what is there.
func ExplainDifference(v output.View, d *registryv1.Difference) Explanation {
	next := d.GetCure()
	if at := d.GetNextAt(); at != nil {
		does := "repairs"
		if code.Restarted(d.GetCause()) {
			does = "starts"
		}
		next = "its executor " + does + " it " + output.Until(v, at) + "; sooner: " + next
	}
	return Explanation{
		What: "differs", Name: cmp.Or(d.GetAgent(), d.GetServerName()), Is: d.GetObserved(), State: d.GetCause(),
		Since: output.Stamp(d.GetSince()), Age: output.Age(v, d.GetSince()), Next: next, Reason: d.GetReason(),
	}
}
