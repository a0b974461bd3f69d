package drift

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/topology"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const up = registryv1.Remedy_REMEDY_UP

// ofInstance returns how an instance differs, or nil when it does not.
func (s Situation) ofInstance(i *instancev1.Instance) *registryv1.Difference {
	if s.Server.Life == serverv1.Life_LIFE_DEAD {
		return &registryv1.Difference{
			Cause: code.WantedOnDead, Reason: "its server is dead", Since: s.Server.Since, Remedy: person,
			Cure: "garrison server forget " + s.Server.Name,
		}
	}
	switch i.State {
	case instancev1.State_STATE_CONVERGED:
		return cmp.Or(s.inCatalog(i), s.metadata(i))
	case instancev1.State_STATE_PENDING, instancev1.State_STATE_REMOVING:
		return s.pending(i)
	}
	if i.Wanted == nil { // its removal ended badly
		d := s.ended(i)
		d.Remedy = registryv1.Remedy_REMEDY_REMOVE
		if s.Server.Life == serverv1.Life_LIFE_DYING { // no intent changes its agents
			d.Remedy, d.Cure = person, "garrison server decommission "+s.Server.Name
		}
		return d
	}
	if d := seen(i); d != nil {
		return s.withNext(d, i)
	}
	return s.ended(i)
}

// inCatalog returns why the image of an instance that converged could not be brought again, or nil.
func (s Situation) inCatalog(i *instancev1.Instance) *registryv1.Difference {
	have, ok := s.Image(i.Wanted.GetId())
	d := &registryv1.Difference{Since: i.Since, Remedy: person}
	switch {
	case i.Wanted == nil:
		return nil
	case !ok:
		d.Cause, d.Reason = code.ImageGone, "the catalog has no image "+i.Wanted.GetId()
		d.Cure = "garrison up " + i.Agent + " --on " + s.Server.Name
	case have.GetState() != imagev1.State_STATE_ACTIVE:
		d.Cause, d.Since = code.ImageDisabled, i.Since
		d.Reason = "image " + i.Wanted.GetId() + " is " + word(have.GetState().String(), "STATE_")
		d.Cure = "garrison up " + i.Agent + " --on " + s.Server.Name
	default:
		return nil
	}
	return d
}

// pending returns why what is wanted is not there yet.
func (s Situation) pending(i *instancev1.Instance) *registryv1.Difference {
	if t := s.trouble(); t != nil { // nothing happens on it
		return &registryv1.Difference{
			Cause: t.Cause, Reason: "its change waits for the server: " + t.Reason, Since: i.Since,
			Remedy: t.Remedy, Cure: t.Cure,
		}
	}
	explain := "garrison explain " + s.Server.Name + " " + i.Agent
	d := &registryv1.Difference{Cause: code.ChangeWaits, Since: i.Since, Remedy: wait, Cure: explain}
	switch i.TaskState {
	case taskv1.State_STATE_RUNNING, taskv1.State_STATE_ASSIGNED:
		d.Cause, d.Reason = code.ChangeRuns, "task "+ident.Short(i.TaskId)+" is under way"
	case taskv1.State_STATE_QUEUED:
		d.Reason = "task " + ident.Short(i.TaskId) + " waits for its turn"
	case taskv1.State_STATE_SUCCEEDED:
		d.Cause, d.Reason = code.ChangeRuns, "its task succeeded, and the server has not listed it yet"
	default:
		d.Reason = "its task is not opened yet"
	}
	return d
}

// seen returns the difference that the server's list shows, or nil when it shows none.
func seen(i *instancev1.Instance) *registryv1.Difference {
	d := &registryv1.Difference{Reason: i.ObservedReason, Since: i.ObservedAt, Remedy: up}
	digest := i.Configuration.GetDigest()
	switch {
	case i.Observed == nil && (i.ObservedAt == nil || instance.WantedFailed(i)):
		return nil // the task that was to bring it says why
	case i.Observed == nil:
		d.Cause = known(i.ObservedCode, code.AgentLost)
		d.Reason = cmp.Or(d.Reason, "the server no longer lists it")
	case i.Observed.Id != i.Wanted.Id:
		if i.TaskCode != "" || instance.EndedBadly(i.TaskState) {
			return nil // the task that was to replace it says why
		}
		d.Cause, d.Reason = code.WrongImage, "it has image "+i.Observed.Id+", and "+i.Wanted.Id+" is wanted"
	case !instance.SameImage(i.Wanted, i.Observed):
		d.Cause, d.Reason = code.OtherDigest, "the image has another content than the one that is wanted"
	case i.Health != instancev1.Health_HEALTH_GOOD:
		d.Cause = known(i.ObservedCode, code.Unhealthy)
		d.Reason = cmp.Or(d.Reason, "it is not healthy")
	case !bytes.Equal(digest, i.ObservedConfigurationDigest):
		if instance.EndedBadly(i.TaskState) {
			return nil
		}
		d.Cause, d.Reason = code.ConfigurationDiffers, "it has another configuration than the one that is wanted"
	default:
		return nil
	}
	return d
}

// withNext adds when the server's executor does something by itself about what its list shows, where that is still to
// come: a first repair, another one after a rest, or the start of a process that keeps ending. A server that is ahead
// of the ledger follows a document that the ledger lacks: whether that lets it repair anything is unknown.
func (s Situation) withNext(d *registryv1.Difference, i *instancev1.Instance) *registryv1.Difference {
	at, what := i.ObservedNextAt, "; it was repaired before and rests, and is repaired again at "
	switch {
	case code.Restarted(i.ObservedCode):
		what = "; it is started again at "
	case at == nil && s.Heals && s.Server.Ahead == nil && code.Healed(d.Cause) && i.ObservedAt != nil:
		at, what = timestamppb.New(i.ObservedAt.AsTime().Add(topology.HealAfter)), "; it is repaired by "
	}
	if at != nil && at.AsTime().After(s.Now) {
		d.NextAt = at
		d.Reason += what + at.AsTime().UTC().Format(time.RFC3339)
	}
	return d
}

// ended returns the difference that follows from how the last task ended.
func (s Situation) ended(i *instancev1.Instance) *registryv1.Difference {
	d := &registryv1.Difference{Reason: i.Reason, Since: i.Since, Remedy: up}
	switch i.TaskState {
	case taskv1.State_STATE_EXPIRED:
		d.Cause = known(i.TaskCode, code.ChangeExpired)
	case taskv1.State_STATE_CANCELLED:
		d.Cause = known(i.TaskCode, code.ChangeCancelled)
		d.Reason = cmp.Or(d.Reason, "its task was cancelled") + "; to want what is there instead: " + s.asItIs(i)
	case taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE:
		d.Cause = known(i.TaskCode, code.ChangeFailed)
	default:
		d.Cause, d.Reason = code.NeverInstalled, cmp.Or(d.Reason, "the server never listed it")
	}
	return d
}

// asItIs returns the command after which an instance is wanted as it is observed.
func (s Situation) asItIs(i *instancev1.Instance) string {
	switch on := " --on " + s.Server.Name; {
	case i.Observed == nil:
		return "garrison remove " + i.Agent + on
	case i.Wanted == nil:
		return "garrison install " + i.Agent + "@" + i.Observed.Version + on
	case i.Observed.Id != i.Wanted.Id:
		return "garrison up " + i.Agent + "@" + i.Observed.Version + on
	default:
		return "garrison undo " + i.IntentId
	}
}

// metadata returns the difference of an instance that runs as it was last wanted, and whose metadata has changed since;
// nil when it has not. What is wanted is fixed by an intent: a change of metadata alone brings nothing to a server.
func (s Situation) metadata(i *instancev1.Instance) *registryv1.Difference {
	if s.Merged == nil || i.Wanted == nil {
		return nil
	}
	digest, why := s.Merged(i)
	d := &registryv1.Difference{Cause: code.MetadataChanged, Remedy: registryv1.Remedy_REMEDY_CONFIGURE}
	switch {
	case why != nil:
		d.Remedy, d.Cure = person, why.Try
		d.Reason = "its metadata has changed, and cannot be merged: " + why.Message
	case !bytes.Equal(digest, i.GetConfiguration().GetDigest()):
		d.Reason = "its metadata has changed since it was configured"
	default:
		return nil
	}
	return d
}

// External is an instance of an agent of kind external, as it was last reported.
type External struct {
	Instance *externalv1.External // with the time of the last report, where that is known
	Stale    bool                 // no report listed it in time
	Missing  bool                 // it is wanted by its name, and no report lists it
	Within   time.Duration        // that time
	Wanted   string               // the version that it should have; empty for none
}

// Difference returns why an external instance needs attention, without its server; nil when it does not. Garrison
// changes nothing there, so a person or another system has to.
func (x External) Difference() *registryv1.Difference {
	f := x.Instance.GetFound()
	d := &registryv1.Difference{
		Agent: x.Instance.Agent, Observed: cmp.Or(f.GetVersion(), "reported"), Remedy: person,
		Since: x.Instance.Since, ConfirmedAt: x.Instance.ConfirmedAt,
		Cure: fmt.Sprintf("garrison instance list %s -o wide", x.Instance.Agent),
	}
	switch {
	case x.Missing:
		d.Cause, d.Wanted, d.Observed = code.StaleReport, x.Wanted, "never reported"
		d.Reason = fmt.Sprintf("%s: it is wanted, and no report lists it", f.GetName())
		d.Cure = fmt.Sprintf("garrison agent update %s --want %s=, unless it should be there", x.Instance.Agent,
			f.GetName())
	case x.Stale:
		d.Cause, d.Wanted = code.StaleReport, fmt.Sprintf("reported within %v", x.Within)
		d.Reason = fmt.Sprintf("%s: no report of %s lists it", f.GetName(), x.Instance.Reporter)
	case f.GetHealth() == instancev1.Health_HEALTH_BAD:
		d.Cause, d.Wanted = code.Unhealthy, "good"
		d.Reason = f.GetName() + ": " + cmp.Or(f.GetReason(), "it is reported as bad")
	case x.Wanted != "" && x.Wanted != f.GetVersion():
		d.Cause, d.Wanted, d.Since = code.WrongVersion, x.Wanted, x.Instance.ChangedAt
		d.Reason = fmt.Sprintf("%s: it has version %s", f.GetName(), cmp.Or(f.GetVersion(), "unknown"))
	default:
		return nil
	}
	return d
}

// ofExternals returns the differences of a server's external instances, and how many were compared.
func (s Situation) ofExternals(agent string) (out []*registryv1.Difference, compared int) {
	if s.Externals == nil {
		return nil, 0
	}
	for x := range s.Externals {
		if agent != "" && x.Instance.Agent != agent {
			continue
		}
		compared++
		if d := x.Difference(); d != nil {
			d.ServerId, d.ServerName, d.Environment = s.Server.Id, s.Server.Name, s.Server.Environment
			out = append(out, d)
		}
	}
	return out, compared
}
