package work

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// takenForChannel adds to a refusal that a word was parsed as a channel, for an operator who meant a version or the
// start of an image's id.
func takenForChannel(i *intentv1.Intent, r *apiv1.Refusal) *apiv1.Refusal {
	said := cmp.Or(i.GetInstall().GetImage().GetChannel(), i.GetUpgrade().GetImage().GetChannel())
	if r.GetCode() != code.UnknownChannel || said == "" {
		return r
	}
	agent := cmp.Or(i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent())
	r = proto.CloneOf(r)
	r.Message += fmt.Sprintf(
		"; %q was parsed as a channel, since it is not a version such as 1.2.3 or the whole id of an image", said)
	r.Try = "garrison channel list, or garrison image list " + agent + " -o wide"
	return r
}
