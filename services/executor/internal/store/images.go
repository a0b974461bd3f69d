// Package store decides which images, chunks, kept versions and removed directories stay on
// the disk.
//
// Guarantees:
//
//  1. An image stays while the inventory or an open change names it.
//  2. Kept versions stay as Keep allows; the oldest goes first. The journal knows of each
//     until its files are gone.
//  3. What a removal moved aside is in the journal until nothing of it is left.
package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Images are the images on the disk and what needs them. They are safe for concurrent use.
type Images struct {
	*imagedir.Images
	Keep    Keep
	journal *journal.Journal
	log     zerolog.Logger

	keeping sync.Mutex // held while kept versions are given up

	mu    sync.Mutex
	blobs map[string]chan struct{} // closed when the change ends that brings a blob, by digest
	ahead *fetching                // nil while nothing that is fetched ahead holds room
}

// NewImages returns the images below a root.
func NewImages(root layout.Root, j *journal.Journal, keep Keep, log zerolog.Logger) *Images {
	return &Images{
		Images: imagedir.New(root), Keep: keep, journal: j, log: log, blobs: map[string]chan struct{}{},
	}
}

// Needed reports whether the inventory, a change other than except, or Keep needs an image, or it was fetched ahead.
func (s *Images) Needed(digest []byte, except *change.Record) (needed bool, err error) {
	err = s.journal.Read(func(tx *journal.Tx) error {
		in, err := neededBy(tx, except)
		if err != nil {
			return err
		}
		kept, err := tx.Kept()
		needed = in(digest)
		for _, of := range kept {
			needed = needed || slices.ContainsFunc(of, func(k journal.Kept) bool {
				return !k.Going && bytes.Equal(k.Image.Digest(), digest)
			})
		}
		return err
	})
	return needed, err
}

// InUse reports the same without Keep.
func (s *Images) InUse(digest []byte, except *change.Record) (needed bool, err error) {
	err = s.journal.Read(func(tx *journal.Tx) error {
		in, err := neededBy(tx, except)
		if err == nil {
			needed = in(digest)
		}
		return err
	})
	return needed, err
}

func neededBy(tx *journal.Tx, except *change.Record) (func(digest []byte) bool, error) {
	in, err := tx.Inventory()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, i := range in.Instances {
		names[string(i.Image.Digest())] = true
	}
	for _, r := range in.Changes {
		if except == nil || r.Agent != except.Agent {
			names[string(r.To.Digest())] = true
			names[string(r.OldImage().Digest())] = true
		}
	}
	for _, digest := range aheadNow(tx) {
		names[string(digest)] = true
	}
	return func(digest []byte) bool { return len(digest) > 0 && names[string(digest)] }, nil
}

// Hold waits while another change brings the same blob: two agents may have the same
// content, and what the first one staged the second one need not fetch. free lets others go on.
func (s *Images) Hold(ctx context.Context, digest []byte) (free func(), err error) {
	name := string(digest)
	for {
		s.mu.Lock()
		other := s.blobs[name]
		if other == nil {
			done := make(chan struct{})
			s.blobs[name] = done
			free = sync.OnceFunc(func() {
				s.mu.Lock()
				delete(s.blobs, name)
				s.mu.Unlock()
				close(done)
			})
		}
		s.mu.Unlock()
		if other == nil {
			return free, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return func() {}, ctx.Err()
		}
	}
}

// held reports whether a blob is being brought.
func (s *Images) held(digest []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[string(digest)] != nil
}

// DropDamaged deletes a kept image that is damaged, so that it is fetched again.
func (s *Images) DropDamaged(digest []byte, of *change.Record) error {
	if !s.Damaged(digest) {
		return nil
	}
	_, err := s.Remove(digest, func() (bool, error) { return s.InUse(digest, of) })
	return err
}

// SweepCopies deletes fresh copies of images that no repair will use.
func (s *Images) SweepCopies() error {
	return s.SweepFresh(func(digest []byte) (bool, error) { return s.InUse(digest, nil) })
}

// SweepUnfinished deletes what a crash left half written, before anything is written again,
// and the chunks of images that are staged.
func (s *Images) SweepUnfinished(root layout.Root) (err error) {
	_, caches := s.Others()
	for _, name := range caches {
		if digest, ok := layout.Digest(name); ok {
			err = errors.Join(err, s.DropCache(digest), layout.SweepTemporary(root.CacheOf(digest)))
		}
	}
	return errors.Join(err, s.SweepTemporary())
}

// SweepUnasked deletes the images and chunks that neither the inventory, nor a change, nor
// the document names: what crashes left. Those of an interrupted change stay until a document
// has come, as it brings the change back: nothing is fetched twice.
func (s *Images) SweepUnasked(d *desiredv1.Document) error {
	all := errors.Join(s.SweepRemoved(), s.SweepCopies())
	images, caches := s.Others()
	for _, name := range append(images, caches...) {
		digest, ok := layout.Digest(name)
		if !ok {
			continue
		}
		asked := func() (bool, error) {
			if slices.ContainsFunc(d.GetEntries(), func(en *desiredv1.Entry) bool {
				return bytes.Equal(en.GetImage().GetBlob().GetDigest(), digest)
			}) {
				return true, nil
			}
			if slices.ContainsFunc(d.GetRequests(), func(q *desiredv1.Request) bool {
				return bytes.Equal(q.GetAhead().GetBlob().GetDigest(), digest)
			}) {
				return true, nil
			}
			if s.held(digest) { // what is fetched ahead and no longer asked for: a later document finds it
				return true, nil
			}
			return s.Needed(digest, nil)
		}
		keep, err := asked()
		if err == nil && !keep { // Remove would wait for whatever is being staged
			_, err = s.Remove(digest, asked)
		}
		all = errors.Join(all, err)
	}
	return all
}

func hexOf(digest []byte) string { return hex.EncodeToString(digest) }
