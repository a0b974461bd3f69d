package drift

import (
	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// block leaves a difference to a person where a block refuses to bring what is wanted.
func (s Situation) block(d *registryv1.Difference, i *instancev1.Instance) {
	if d.Remedy != up || s.Blocked == nil {
		return
	}
	if why := s.Blocked(i); why != nil {
		d.Remedy, d.Reason = person, d.Reason+"; "+why.Message
		d.Cure = "garrison up " + d.Agent + "@VERSION --on " + s.Server.Name + ", another version; or " + why.Try
	}
}

// cure sets the command that cures a difference, or what a person must do.
func cure(d *registryv1.Difference) {
	if d.Remedy == up && !code.RetryHelps(d.Cause) {
		d.Remedy = person
		e, _ := code.Lookup(d.Cause)
		d.Cure = e.Remedy
	}
	if d.Cure != "" {
		return
	}
	switch d.Remedy {
	case registryv1.Remedy_REMEDY_UP:
		d.Cure = "garrison up " + d.Agent + "@" + d.Image.GetVersion() + " --on " + d.ServerName
	case registryv1.Remedy_REMEDY_CONFIGURE:
		d.Cure = "garrison configure " + d.Agent + " --on " + d.ServerName
	case registryv1.Remedy_REMEDY_REMOVE:
		d.Cure = "garrison remove " + d.Agent + " --on " + d.ServerName
	case registryv1.Remedy_REMEDY_REFRESH:
		d.Cure = "garrison server refresh --on " + d.ServerName
	}
}
