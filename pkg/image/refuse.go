package image

import (
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The codes of refusals.
const (
	CodeNoRecipe     = "NO_RECIPE"        // the directory has no garrison.yaml
	CodeBadRecipe    = "BAD_RECIPE"       // garrison.yaml cannot be read
	CodeUnknownKey   = "UNKNOWN_KEY"      // garrison.yaml has a key that means nothing
	CodeNoCommand    = "NO_COMMAND"       // the command is not in the directory or cannot be run
	CodeBadTemplate  = "BAD_TEMPLATE"     // a template is not in the directory or cannot be read as one
	CodeOutside      = "OUTSIDE"          // a path or symbolic link leads out of the directory
	CodeSpecialFile  = "SPECIAL_FILE"     // neither a file, a directory nor a symbolic link
	CodeChanged      = "CHANGED"          // a file changed while it was packed
	CodeEmpty        = "EMPTY"            // nothing to pack
	CodeTooLarge     = "TOO_LARGE"        // more than an image may hold
	CodeBadManifest  = "BAD_MANIFEST"     // a field of the manifest is not valid
	CodeUnknownName  = "UNKNOWN_VARIABLE" // a ${variable} that means nothing
	CodeWrongID      = "WRONG_ID"         // the id does not fit the content
	CodeTruncated    = "TRUNCATED"        // the file is cut short
	CodeWrongDigest  = "WRONG_DIGEST"     // the content is not what the manifest says
	CodeNotAnImage   = "NOT_AN_IMAGE"     // the file is something else
	CodeNoSuchChunk  = "NO_SUCH_CHUNK"    // the image has fewer chunks
	CodeBadPlatform  = "UNKNOWN_PLATFORM" // nothing that Garrison runs on
	CodeBadVersion   = "BAD_VERSION"      // not a semantic version
	CodeBadAgentName = "BAD_NAME"         // not a name

	CodeUnsupportedKind = "UNSUPPORTED_KIND" // a kind that nothing can install yet
)

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
