package fold_test

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// applications is a view with one table.
type applications struct {
	byName *fold.Table[*applicationv1.Application]
}

func (v *applications) Tables() []fold.Stored { return []fold.Stored{v.byName} }
func (v *applications) Loaded()               {}

func (v *applications) Apply(f ledger.Fact) bool {
	switch body := f.Body.(type) {
	case *applicationv1.Created:
		v.byName.Put(f.Key, body.Application, f.Sequence)
	case *applicationv1.Deleted:
		v.byName.Drop(f.Key, f.Sequence)
	}
	return true
}

// A service follows the ledger and reads its view between two facts.
func ExampleNew() {
	follow := func(ctx context.Context, conn *bus.Conn) error {
		view := &applications{fold.NewTable[*applicationv1.Application]("applications")}
		follower := fold.New(conn, view, fold.Options{
			Service: "example", Layout: 1, Nouns: []ledger.Noun{ledger.Application}, Log: zerolog.Nop(),
		})
		return rungroup.Run(ctx,
			rungroup.Part{Name: "view", Run: follower.Run},
			rungroup.Part{Name: "print", Run: func(ctx context.Context) error {
				select {
				case <-follower.Ready():
				case <-ctx.Done():
					return ctx.Err()
				}
				follower.Read(func() { fmt.Println(view.byName.Len(), "applications") })
				return rungroup.ErrDone
			}})
	}
	_ = follow // it needs a bus; package bustest starts one for tests
}
