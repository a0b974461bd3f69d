package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// images keeps the manifests. Whether an image is active is decided by the registry when an instance
// is wanted; a document only needs the manifest. A deleted image stays while instances name it.
type images struct {
	table  *fold.Table[*dispatcherv1.ImageRecord]
	users  map[string]int // by image id, how often instances name it
	unused []string       // images whose last instance the present fact removed
}

// apply folds a fact about an image.
func (m *images) apply(f ledger.Fact) bool {
	r, known := m.table.Get(f.Key)
	if known {
		m.table.Touch(f.Key, f.Sequence)
	}
	switch b := f.Body.(type) {
	case *imagev1.Created:
		if known && !r.Deleted {
			return false
		}
		m.table.Put(f.Key, &dispatcherv1.ImageRecord{Manifest: b.Manifest}, f.Sequence)
	case *imagev1.Deleted:
		if !known || r.Deleted {
			return false
		}
		if r.Deleted = true; m.users[f.Key] == 0 {
			m.table.Forget(f.Key)
		}
	default:
		return known
	}
	return true
}

// manifest returns the manifest of an image, or nil.
func (m *images) manifest(id string) *imagev1.Manifest {
	r, _ := m.table.Get(id)
	return r.GetManifest()
}

// use counts that an instance names images; nil ones are skipped.
func (m *images) use(refs ...*imagev1.Ref) {
	for _, r := range refs {
		if r != nil {
			m.users[r.Id]++
		}
	}
}

// release takes back what use counted.
func (m *images) release(refs ...*imagev1.Ref) {
	for _, r := range refs {
		if r == nil {
			continue
		}
		if m.users[r.Id]--; m.users[r.Id] == 0 {
			delete(m.users, r.Id)
			m.unused = append(m.unused, r.Id)
		}
	}
}

// sweep forgets deleted images that no instance names.
func (m *images) sweep() {
	for _, id := range m.unused {
		if r, ok := m.table.Get(id); ok && r.Deleted && m.users[id] == 0 {
			m.table.Forget(id)
		}
	}
	m.unused = m.unused[:0]
}

// applyImage folds a fact about an image. An image that comes updates the documents that lacked it:
// it scans all instances, but rarely, since an instance wants only images that are known.
func (v *View) applyImage(f ledger.Fact) bool {
	fits := v.images.apply(f)
	if _, created := f.Body.(*imagev1.Created); created && fits && v.images.users[f.Key] > 0 {
		for _, i := range v.instances.table.All() {
			if i.Placed.GetId() == f.Key {
				v.documents.changed(i.ServerId, f)
			}
		}
	}
	return fits
}
