package drift

import (
	"cmp"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// External is an instance of an agent of kind external, as it was last reported.
type External struct {
	Instance *externalv1.External // with the time of the last report, where that is known
	Stale    bool                 // no report listed it in time
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
		Cure: fmt.Sprintf("garrison external show %s %s", x.Instance.Agent, f.GetName()),
	}
	switch {
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
