// Package drift compares what is wanted of a server with what is known of it, and names the cause of each difference.
// It is pure.
//
// Guarantees:
//
//  1. Of returns nothing for a server that is as it is wanted, with every instance converged and confirmed, and
//     nothing unmanaged on it.
//  2. Each difference has one cause, the most specific one: what the executor saw comes before what follows from two
//     records that differ, and that before how the last task ended.
//  3. Every cause is a declared code. A code that a server made up is replaced by a declared one.
package drift

import (
	"cmp"
	"iter"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// StaleBeats is after how many beats without a confirmation the report of a server that is online is stale.
const StaleBeats = 12

// Situation is what is known of one server.
type Situation struct {
	Server      *serverv1.Server
	Duties      []*serverv1.Duty // what its end waits for
	Instances   iter.Seq[*instancev1.Instance]
	Defaults    []Default                              // of its environment that wait, by agent
	Externals   iter.Seq[External]                     // those on the server; nil for none
	Image       func(id string) (*imagev1.Image, bool) // in the catalog
	Now         time.Time
	ConfirmedAt time.Time     // until when its last list is known to be true; zero when it is not known
	Listening   time.Time     // since when beats are received
	Beat        time.Duration // how often servers beat
	ClockAhead  time.Duration // how far the server's clock is ahead; 0 while it agrees
	ClockSince  time.Time     // since when it differs
	Signed      bool          // servers should take only signed images
	Heals       bool          // executors may heal drift in the server's environment now

	// Merged returns the digest of an instance's metadata as it is now, or why it cannot be merged; nil compares none.
	Merged func(*instancev1.Instance) ([]byte, *apiv1.Refusal)

	// Blocked returns why what is wanted of an instance must not be brought, or nil; nil asks for none.
	Blocked func(*instancev1.Instance) *apiv1.Refusal
}

// Scope is what is compared.
type Scope struct {
	Agent           string // only this one; empty means all
	Servers, Agents bool
}

// Of returns the differences of one server, the server's own first, then those of its agents by name and those of the
// defaults that wait, and how many agents were compared.
func Of(s Situation, scope Scope) (out []*registryv1.Difference, agents int) {
	if scope.Servers && scope.Agent == "" {
		for _, d := range s.ofServer() {
			out = append(out, s.complete(d))
		}
	}
	if !scope.Agents {
		return out, 0
	}
	for i := range s.Instances {
		if scope.Agent != "" && i.Agent != scope.Agent {
			continue
		}
		agents++
		if d := s.ofInstance(i); d != nil {
			d.Agent, d.Image = i.Agent, i.Wanted
			d.Wanted = cmp.Or(d.Wanted, i.Wanted.GetVersion(), "nothing")
			d.Observed = cmp.Or(d.Observed, i.Observed.GetVersion(), "nothing")
			repeats(d, i)
			s.block(d, i)
			out = append(out, s.complete(d))
		}
	}
	for _, w := range s.Defaults {
		if scope.Agent == "" || w.Agent == scope.Agent {
			agents++
			out = append(out, s.complete(s.ofDefault(w)))
		}
	}
	for _, d := range s.unmanaged(scope.Agent) {
		out = append(out, s.complete(d))
	}
	external, compared := s.ofExternals(scope.Agent)
	return append(out, external...), agents + compared
}

// complete sets what every difference of a server has.
func (s Situation) complete(d *registryv1.Difference) *registryv1.Difference {
	d.ServerId, d.ServerName, d.Environment = s.Server.Id, s.Server.Name, s.Server.Environment
	if !s.ConfirmedAt.IsZero() {
		d.ConfirmedAt = timestamppb.New(s.ConfirmedAt)
	}
	cure(d)
	return d
}

// known returns a code that is declared, or else the other one.
func known(said, other string) string {
	if _, ok := code.Lookup(said); ok && said != "" {
		return said
	}
	return other
}

// repeats leaves a difference to a person where its cure would bring again what failed on the server.
func repeats(d *registryv1.Difference, i *instancev1.Instance) {
	if d.Remedy == up && instance.WantedFailed(i) {
		d.Remedy, d.Cure = person, "garrison undo "+i.IntentId
	}
}

// block leaves a difference to a person where a block refuses to bring what is wanted.
func (s Situation) block(d *registryv1.Difference, i *instancev1.Instance) {
	if d.Remedy != up || s.Blocked == nil {
		return
	}
	if why := s.Blocked(i); why != nil {
		d.Remedy, d.Reason = person, d.Reason+"; "+why.Message
		d.Cure = "garrison up " + d.Agent + "@VERSION --on " + s.Server.Name + ", another version"
	}
}

var (
	placeholders = regexp.MustCompile(`\b(SERVER|AGENT|VERSION|LABEL|NAME)\b`)
	nameNeeded   = regexp.MustCompile(`\$\{(label|metadata)\.([^}]+)\}`)
	keyNeeded    = regexp.MustCompile(`\.(labels|metadata)\.([^.> ]+)>: map has no entry for key`)
)

// remedy returns the remedy of a difference's cause, with what is known of the difference filled in.
func remedy(d *registryv1.Difference) string {
	e, _ := code.Lookup(d.Cause)
	known := map[string]string{"SERVER": d.ServerName, "AGENT": d.Agent, "VERSION": d.Image.GetVersion()}
	if code.LacksVariable(d.Cause) {
		switch needed := nameNeeded.FindStringSubmatch(d.Reason); {
		case needed == nil: // no operator can set it
			return "garrison image build --help lists the variables; garrison up " + d.Agent + "@VERSION --on " +
				d.ServerName + ", a version without it"
		case needed[1] == "metadata":
			return "garrison agent update " + d.Agent + " --set " + needed[2] + "=VALUE, then " + again(d)
		default:
			known["LABEL"] = needed[2]
		}
	}
	if needed := keyNeeded.FindStringSubmatch(d.Reason); code.RendersNot(d.Cause) && needed != nil {
		if needed[1] == "labels" {
			return "garrison server set " + d.ServerName + " " + needed[2] + "=VALUE, then " + again(d)
		}
		known["NAME"] = needed[2]
	}
	return placeholders.ReplaceAllStringFunc(e.Remedy, func(name string) string { return cmp.Or(known[name], name) })
}

// again returns the command that asks for what is wanted once more.
func again(d *registryv1.Difference) string {
	return "garrison up " + d.Agent + "@" + d.Image.GetVersion() + " --on " + d.ServerName
}

// cure sets the command that cures a difference, or what a person must do.
func cure(d *registryv1.Difference) {
	if d.Remedy == up && !code.RetryHelps(d.Cause) {
		d.Remedy, d.Cure = person, remedy(d)
	}
	if d.Cure != "" {
		return
	}
	switch d.Remedy {
	case registryv1.Remedy_REMEDY_UP:
		d.Cure = again(d)
	case registryv1.Remedy_REMEDY_CONFIGURE:
		d.Cure = "garrison configure " + d.Agent + " --on " + d.ServerName
	case registryv1.Remedy_REMEDY_REMOVE:
		d.Cure = "garrison remove " + d.Agent + " --on " + d.ServerName
	case registryv1.Remedy_REMEDY_REFRESH:
		d.Cure = "garrison server refresh --on " + d.ServerName
	}
}

// Default is an agent that the server's environment wants of it and that cannot be installed on it now.
type Default struct {
	Agent string
	Why   *apiv1.Refusal
	Since *timestamppb.Timestamp
}

// ofDefault returns the difference of a default that waits: no record of an instance wants its agent yet.
func (s Situation) ofDefault(w Default) *registryv1.Difference {
	d := &registryv1.Difference{
		Agent: w.Agent, Wanted: "the default of " + s.Server.Environment, Observed: "nothing",
		Cause: known(w.Why.Code, code.NeverInstalled), Reason: w.Why.Message, Since: w.Since, Remedy: person,
		Cure: strings.ReplaceAll(w.Why.Try, "--on SELECTOR", "--on "+s.Server.Name),
	}
	if d.Cause == code.ServerReinstalling {
		d.Remedy = wait
	}
	if d.Cure == "" {
		d.Cure = "garrison env default " + s.Server.Environment
	}
	return d
}
