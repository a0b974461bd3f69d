package agent

import (
	"cmp"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

// Version is one version of an agent with what its variables stand for.
type Version struct {
	Agent            string
	Image            change.Manifest
	Labels, Metadata map[string]string // with the secrets in clear
	Config           string            // the configuration's directory, unless it is where the link leads
	Adopted          *change.Adoption  // the process that was adopted as this version; nil for none
}

// Installed returns the version of an inventory line.
func Installed(i *change.Instance) Version {
	return Version{
		Agent: i.Agent, Image: i.Image, Labels: i.Labels, Metadata: metadata.Merge(i.Metadata, i.Secrets),
		Adopted: i.Adopted,
	}
}

// Coming returns the version that a change brings.
func Coming(r *change.Record) Version {
	return Version{
		Agent: r.Agent, Image: r.To, Labels: r.Labels, Metadata: metadata.Merge(r.Metadata, r.Secrets),
		Adopted: r.Adoption,
	}
}

// ReadyWithin returns how long the version has to become ready, to run through, or to check itself.
func (v Version) ReadyWithin() time.Duration {
	return cmp.Or(time.Duration(v.run().GetReady().GetTimeoutMs())*time.Millisecond, healthcheck.DefaultTimeout)
}

// Soak returns how long the version is watched once it is ready.
func (v Version) Soak() time.Duration {
	return cmp.Or(time.Duration(v.run().GetReady().GetSoakMs())*time.Millisecond, healthcheck.DefaultSoak)
}

// Answers reports whether the version's health check asks something that answers at any time, unlike READY=1.
func (v Version) Answers() bool {
	r := v.run().GetReady()
	return r.GetHttp() != "" || r.GetTcp() != "" || r.GetExec() != nil
}

// RestartAfter returns after how many failed probes in a row the version is restarted; nil when its image does not say.
func (v Version) RestartAfter() *uint32 {
	if r := v.run().GetReady(); r != nil {
		return r.RestartAfter
	}
	return nil
}

func (v Version) run() *imagev1.Run { return v.Image.GetRun() }
