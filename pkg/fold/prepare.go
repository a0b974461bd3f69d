package fold

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Spec describes the view of a service.
type Spec struct {
	Service string
	Layout  uint32        // the version of the view's tables and fold
	Nouns   []ledger.Noun // the nouns that the view folds
	New     func() View   // returns an empty view
}

// Options returns the options that every fold of the view needs.
func (s Spec) Options() Options {
	return Options{Service: s.Service, Layout: s.Layout, Nouns: s.Nouns, Log: zerolog.Nop()}
}

// Prepared is what a version found in the ledger before it runs.
type Prepared struct {
	Position uint64 // of the last fact that was folded
	Folded   uint64 // how many positions were folded; the others came with a snapshot of this version
	Took     time.Duration
	Unread   []*viewv1.FactCount // what this version does not know
	Unfit    []*viewv1.FactCount // what did not fit the view
}

// Prepare folds the ledger up to its present end, and leaves in a directory the snapshot from which this version of the
// service continues when it starts there. It overwrites no good snapshot, deletes none, and writes nothing else.
func Prepare(ctx context.Context, conn *bus.Conn, s Spec, store string) (Prepared, error) {
	begun, o := time.Now(), s.Options()
	o.Store = store
	f := New(conn, s.New(), o)
	if err := f.begin(ctx); err != nil {
		return Prepared{}, err
	}
	loaded := f.Position()
	if f.target > loaded {
		if err := f.rebuild(ctx, loaded+1, f.target); err != nil {
			return Prepared{}, err
		}
	}
	if loaded == 0 {
		if err := f.save(); err != nil {
			return Prepared{}, err
		}
	}
	return Prepared{
		Position: f.Position(), Folded: f.Position() - loaded, Took: time.Since(begun),
		Unread: f.Unread(), Unfit: f.Unfit(),
	}, nil
}
