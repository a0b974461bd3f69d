package operator

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// target is an agent and which image of it.
type target struct {
	agent string
	image *intentv1.ImageChoice // nil means the newest of the default channel
	said  string                // what stood behind the @
}

var versionLike = regexp.MustCompile(`^v?[0-9]+\.`)

// parseTarget reads AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL.
func parseTarget(text string) (target, error) {
	agent, said, at := strings.Cut(text, "@")
	t := target{agent: agent, said: said}
	if err := ident.CheckName("agent", agent); err != nil {
		return t, usageError{err.Error()}
	}
	switch {
	case !at:
	case said == "":
		return t, usage("%q: what stands behind the @? Try: %s@VERSION, %s@IMAGE, %s@CHANNEL", text, agent, agent, agent)
	case ident.IsUUID(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: said}}
	case versionLike.MatchString(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	default:
		if err := ident.CheckName("channel", said); err != nil {
			return t, usage("%q is neither a version, nor an image's id, nor a channel", said)
		}
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: said}}
	}
	return t, nil
}

// takenForChannel explains a refusal where a word was taken for a channel: a person who
// meant a version or the start of an image's id said no channel.
func takenForChannel(i *intentv1.Intent, r *apiv1.Refusal) *apiv1.Refusal {
	said := cmp.Or(i.GetInstall().GetImage().GetChannel(), i.GetUpgrade().GetImage().GetChannel())
	if r.GetCode() != "UNKNOWN_CHANNEL" || said == "" {
		return r
	}
	agent := cmp.Or(i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent())
	r = proto.CloneOf(r)
	r.Message += fmt.Sprintf("; %q was taken for a channel, since it is neither a version such as 1.2.3 nor an image's whole id", said)
	r.Try = "garrison channel list, or garrison image list " + agent + " -o wide"
	return r
}
