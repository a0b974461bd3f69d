package drift

import (
	"cmp"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
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
