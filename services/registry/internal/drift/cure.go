package drift

import (
	"cmp"
	"regexp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

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
		d.Cure = "garrison up " + d.Agent + "@VERSION --on " + s.Server.Name + ", another version; or " + why.Try
	}
}

var (
	placeholders = regexp.MustCompile(`\b(SERVER|AGENT|VERSION|LABEL)\b`)
	nameNeeded   = regexp.MustCompile(`\$\{(label|metadata)\.([^}]+)\}`)
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
