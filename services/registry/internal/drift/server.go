package drift

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	wait   = registryv1.Remedy_REMEDY_WAIT
	person = registryv1.Remedy_REMEDY_PERSON
)

// ofServer returns the differences of the server itself.
func (s Situation) ofServer() []*registryv1.Difference {
	switch s.Server.Life {
	case serverv1.Life_LIFE_INVITED:
		return s.invited()
	case serverv1.Life_LIFE_DEAD:
		return s.leaked()
	}
	var out []*registryv1.Difference
	if d := s.trouble(); d != nil {
		out = append(out, d)
	} else if d := s.stale(); d != nil {
		out = append(out, d)
	}
	if s.ClockAhead != 0 && s.Server.GetCondition().GetCode() != code.ClockSkew {
		out = append(out, s.skewed())
	}
	if s.Signed && server.TakesUnsigned(s.Server) {
		out = append(out, &registryv1.Difference{
			Wanted: "signed images only", Observed: "takes any image", Cause: code.NoImageKeys, Since: s.Server.Since,
			Remedy: person, Reason: "it has no keys of images, as when it joined before the registry had them",
			Cure: "on the server: the public keys of images, one a line, in executor/image-keys below its root",
		})
	}
	switch {
	case s.Server.Life == serverv1.Life_LIFE_DYING:
		out = append(out, s.leaving())
	case s.Server.Reinstall != nil:
		out = append(out, s.reinstalling())
	}
	return out
}

// invited returns that the invitation of a server expired; nothing before.
func (s Situation) invited() []*registryv1.Difference {
	if !server.InvitationExpired(s.Server, s.Now) {
		return nil
	}
	return []*registryv1.Difference{{
		Wanted: "alive", Observed: "invited", Cause: code.ExpiredToken, Since: s.Server.TokenExpiresAt, Remedy: person,
		Reason: "its token expired before it joined",
		Cure:   "garrison server forget " + s.Server.Id + ", then garrison server enroll " + s.Server.Name,
	}}
}

// leaked returns why something of Garrison may still be on a dead server's machine.
func (s Situation) leaked() (out []*registryv1.Difference) {
	for _, l := range s.Duties {
		out = append(out, &registryv1.Difference{
			Wanted: "nothing left", Observed: "dead", Cause: code.Leaked, Since: l.Since, Remedy: person,
			Reason: cmp.Or(l.Reason, "its executor never reported that it removes itself"),
			Cure:   "garrison server clean " + s.Server.Name + " --ssh USER@HOST",
		})
	}
	return out
}

// leaving returns what the end of a dying server waits for.
func (s Situation) leaving() *registryv1.Difference {
	d := &registryv1.Difference{
		Wanted: "dead", Observed: "dying", Cause: code.ServerLeaving, Since: s.Server.Since, Remedy: wait,
		Reason: "its end is not recorded yet", Cure: "garrison explain " + s.Server.Name,
	}
	if len(s.Duties) > 0 {
		d.Reason = s.waits("its end")
	}
	return d
}

// reinstalling returns what the reinstall of a server waits for.
func (s Situation) reinstalling() *registryv1.Difference {
	return &registryv1.Difference{
		Wanted: "empty", Observed: "reinstalling", Cause: code.ServerReinstalling, Since: s.Server.Reinstall.Since,
		Remedy: wait, Reason: s.waits("its reinstall"), Cure: "garrison explain " + s.Server.Name,
	}
}

// waits returns how many things an end waits for, and the first reason among them.
func (s Situation) waits(what string) string {
	text := fmt.Sprintf("%s waits for %d things", what, len(s.Duties))
	for _, l := range s.Duties {
		if l.Reason != "" {
			return text + "; " + l.Reason
		}
	}
	return text
}

// trouble returns why a server does not follow its document, or nothing is known of it; nil when neither holds.
func (s Situation) trouble() *registryv1.Difference {
	v, c := s.Server, s.Server.GetCondition()
	d := &registryv1.Difference{Wanted: "follows its document", Remedy: person}
	set := func(observed, cause, reason string, since *timestamppb.Timestamp, cure string) *registryv1.Difference {
		d.Observed, d.Cause, d.Reason, d.Cure = observed, cause, reason, cure
		d.Since = since
		if since == nil {
			d.Since = v.Since
		}
		return d
	}
	name := v.Name
	switch {
	case v.Standing == serverv1.Standing_STANDING_REVOKED:
		return set("revoked", code.ServerRevoked, cmp.Or(v.Exclusion.GetReason(), "its credentials were revoked"),
			v.Exclusion.GetSince(), "garrison server enroll "+name)
	case v.Standing == serverv1.Standing_STANDING_QUARANTINED:
		return set("quarantined", known(v.Exclusion.GetCode(), code.ServerQuarantined),
			cmp.Or(v.Exclusion.GetReason(), "it is shut out"), v.Exclusion.GetSince(), "garrison server release "+name)
	case v.Ahead != nil:
		return set("ahead of the ledger", code.LedgerBehind,
			fmt.Sprintf("it applied document %d, which the ledger does not have", v.Ahead.GetPlace().GetGeneration()),
			v.Ahead.GetSince(), "garrison restore --on "+name)
	case v.Duplicate != nil:
		return set("two executors", code.DuplicateIdentity, "executors beat on "+hosts(v.Duplicate.GetSightings()),
			v.Duplicate.GetSince(), "garrison explain "+code.DuplicateIdentity)
	case server.Void(v, s.Now):
		return set("without credentials", code.LoginExpired, "its credentials expired",
			v.CredentialsExpireAt, "garrison server enroll "+name)
	case v.Presence == serverv1.Presence_PRESENCE_UNSPECIFIED:
		return set("enrolled", code.NeverConnected, "its executor has never connected", nil,
			"executor run on the server")
	case v.Presence != serverv1.Presence_PRESENCE_ONLINE:
		return set("offline", code.ServerOffline, cmp.Or(v.Reason, "it does not beat"), nil,
			"the machine, its network and its executor; it continues when it is back")
	case c.GetCode() != "" || suspended(c):
		cause := known(c.GetCode(), code.ExecutorSuspended)
		return set(word(c.GetState().String(), "EXECUTOR_STATE_"), cause, c.GetReason(), c.GetSince(),
			"garrison explain "+cause)
	}
	return nil
}

// suspended reports whether an executor says that it does not do what its document says.
func suspended(c *serverv1.ServerCondition) bool {
	switch c.GetState() {
	case serverv1.ExecutorState_EXECUTOR_STATE_UNSPECIFIED, serverv1.ExecutorState_EXECUTOR_STATE_RUNNING:
		return false
	}
	return true
}

// stale returns that a server which is online does not confirm what it reported; nil when it does.
func (s Situation) stale() *registryv1.Difference {
	from := s.ConfirmedAt
	if from.IsZero() || from.Before(s.Listening) {
		from = s.Listening
	}
	if s.Listening.IsZero() || s.Beat <= 0 || s.Now.Sub(from) <= StaleBeats*s.Beat {
		return nil
	}
	return &registryv1.Difference{
		Wanted: "confirmed", Observed: "unconfirmed", Cause: code.StaleReport, Since: timestamppb.New(from),
		Remedy: registryv1.Remedy_REMEDY_REFRESH,
		Reason: fmt.Sprintf("it is online and has not confirmed its reports for %s",
			s.Now.Sub(from).Round(time.Second)),
	}
}

// skewed returns that the clock of a server differs from the registry's.
func (s Situation) skewed() *registryv1.Difference {
	observed := server.ClockText(s.ClockAhead)
	return &registryv1.Difference{
		Wanted: "the registry's clock", Observed: observed, Cause: code.ClockSkew, Since: timestamppb.New(s.ClockSince),
		Remedy: person, Reason: "by its beats, its clock is " + observed + " of the registry's, and so are its times",
		Cure: "set the clock of the server; when many differ alike, that of the registry",
	}
}

// unmanaged returns the agents on the server that no instance explains; with an agent's name, only that one.
func (s Situation) unmanaged(agent string) (out []*registryv1.Difference) {
	if !server.Managed(s.Server) {
		return nil
	}
	for _, f := range s.Server.Found {
		if agent != "" && f.Agent != agent {
			continue
		}
		out = append(out, &registryv1.Difference{
			Agent: f.Agent, Wanted: "nothing", Cause: foundCode(f.Trace), Since: f.Since, Remedy: person,
			Observed: strings.TrimSpace(f.Version + " " + word(f.Trace.String(), "TRACE_")),
			Reason:   strings.TrimSpace(word(f.Trace.String(), "TRACE_") + " " + f.Path),
			Cure:     "garrison explain " + s.Server.Name,
		})
	}
	if n := s.Server.FoundMore; n > 0 && agent == "" {
		out = append(out, &registryv1.Difference{
			Wanted: "nothing", Observed: fmt.Sprintf("%d more", n), Cause: code.MoreFound, Since: s.Server.FoundAt,
			Reason: fmt.Sprintf("%d more unmanaged agents are not listed", n), Remedy: person,
			Cure: "garrison explain " + s.Server.Name,
		})
	}
	return out
}

func foundCode(t serverv1.Trace) string {
	switch t {
	case serverv1.Trace_TRACE_LINK:
		return code.FoundLink
	case serverv1.Trace_TRACE_PROCESS:
		return code.FoundProcess
	case serverv1.Trace_TRACE_UNIT:
		return code.FoundUnit
	}
	return code.FoundInstance
}

func hosts(sightings []*serverv1.Sighting) string {
	var names []string
	for _, s := range sightings {
		names = append(names, s.GetHostname())
	}
	return strings.Join(names, " and ")
}

// word returns the name of an enum's value without its prefix.
func word(name, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix), "_", " "))
}
