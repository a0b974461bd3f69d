package change

import (
	"regexp"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/manifest"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// target is an agent and the choice of its image.
type target struct {
	agent string
	image *intentv1.ImageChoice // nil means the newest of the server's channel
	said  string                // the text after the @
	again bool                  // also where the image is the same
}

// ParseTarget parses AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL. A nil choice means the newest image of
// the server's channel.
func ParseTarget(text string) (agent string, image *intentv1.ImageChoice, err error) {
	t, err := parseTarget(text)
	return t.agent, t.image, err
}

var versionLike = regexp.MustCompile(`^v?[0-9]+\.`)

// parseTarget parses AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL.
func parseTarget(text string) (target, error) {
	agent, said, at := strings.Cut(text, "@")
	t := target{agent: agent, said: said}
	if name, tag, colon := strings.Cut(text, ":"); colon && !at && ident.CheckName("agent", name) == nil {
		return t, cli.Usage("%q is not an agent. Try: %s@%s", text, name, tag)
	}
	if err := ident.CheckName("agent", agent); err != nil {
		return t, cli.Usage("%v", err)
	}
	switch {
	case !at:
	case said == "":
		return t, cli.Usage("%q: nothing follows the @. Try: %s@VERSION, %s@IMAGE, %s@CHANNEL", text, agent, agent,
			agent)
	case ident.IsUUID(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: said}}
	case versionLike.MatchString(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	case ident.CheckName("channel", said) == nil:
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: said}}
	case manifest.CheckVersion(said) == nil:
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	default:
		return t, cli.Usage("%q is not a version, the id of an image or a channel", said)
	}
	return t, nil
}
