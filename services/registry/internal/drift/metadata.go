package drift

import (
	"bytes"

	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

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
