package view

import (
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// applyImage keeps the manifests. Whether an image is active is the registry's
// question when it decides what is wanted; here it is only looked up.
func (v *View) applyImage(f ledger.Fact) bool {
	r, known := v.images.Get(f.Key)
	if known {
		v.images.Touch(f.Key, f.Sequence)
	}
	switch b := f.Body.(type) {
	case *imagev1.Created:
		if known && !r.Deleted {
			return false
		}
		v.images.Put(f.Key, &dispatcherv1.ImageRecord{Manifest: b.Manifest}, f.Sequence)
		if v.imageUsers[f.Key] > 0 {
			v.imageCame(f.Key, f)
		}
	case *imagev1.Deleted:
		if !known || r.Deleted {
			return false
		}
		if r.Deleted = true; v.imageUsers[f.Key] == 0 {
			v.images.Forget(f.Key)
		}
	default:
		return known
	}
	return true
}

// imageCame moves the documents that lacked an image. It looks at all instances, which
// is no matter: an image is only wanted once it is known.
func (v *View) imageCame(image string, f ledger.Fact) {
	for _, i := range v.instances.All() {
		if i.Placed.GetId() == image {
			v.documentChanged(i.ServerId, f)
		}
	}
}

// sweepImages forgets deleted images that lost their last user.
func (v *View) sweepImages() {
	for _, id := range v.unused {
		if r, ok := v.images.Get(id); ok && r.Deleted && v.imageUsers[id] == 0 {
			v.images.Forget(id)
		}
	}
	v.unused = v.unused[:0]
}

// applyAgent keeps tiers and dependencies. Entries keep those with which they were
// admitted, so that a change of an agent rewrites no document.
func (v *View) applyAgent(f ledger.Fact) bool {
	_, known := v.agents.Get(f.Key)
	switch b := f.Body.(type) {
	case *agentv1.Created:
		if known {
			v.agents.Touch(f.Key, f.Sequence)
			return false
		}
		v.agents.Put(f.Key, b.Agent, f.Sequence)
	case *agentv1.Changed:
		if !known {
			return false
		}
		v.agents.Put(f.Key, b.Agent, f.Sequence)
	case *agentv1.Deleted:
		if !known {
			return false
		}
		v.agents.Forget(f.Key)
	}
	for server := range v.openOf {
		v.reviewTasks(server) // the order on a server may have changed
	}
	return true
}
