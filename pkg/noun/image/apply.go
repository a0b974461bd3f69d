package image

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Apply folds a fact into an image's record, which is nil for an unknown image, and returns the
// record after it; nil means that the image is deleted. Apply may change the record in place and
// keeps the manifest of the fact. It returns false, and the record unchanged, for a fact that does
// not fit. Channels of the record are not its business: they follow from the channels' own facts.
func Apply(i *imagev1.Image, f ledger.Fact) (*imagev1.Image, bool) {
	next, fit := Life.Next(StateOf(i.GetState()), f.Name())
	if !fit {
		return i, false
	}
	switch b := f.Body.(type) {
	case *imagev1.Created:
		if b.GetManifest().GetId() != f.Key {
			return i, false
		}
		i = &imagev1.Image{Manifest: b.Manifest}
	case *imagev1.Filled:
		if i.Filled {
			return i, false
		}
		i.Filled = true
		return i, true
	case *imagev1.Activated:
		if !i.Filled {
			return i, false
		}
	case *imagev1.Disabled:
		i.Reason = b.Reason
	case *imagev1.Enabled:
		i.Reason = ""
	case *imagev1.Deleted:
		return nil, true
	}
	i.State, i.Since = next.Proto(), timestamppb.New(f.At)
	return i, true
}
