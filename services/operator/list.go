package operator

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// largestPart is how many rows a service gives at once.
const largestPart = 1000

// pageFlags say which part of a list is wanted.
type pageFlags struct {
	limit  uint32
	cursor string
}

func (p *pageFlags) add(c *cobra.Command, limit uint32) {
	limitVar(c.Flags(), &p.limit, "limit", limit, "at most this many `ROWS`, or all")
	textVar(c.Flags(), &p.cursor, "cursor", said("cursor"), "go on at this `CURSOR`, which the part before ended with")
}

// part is one part of a list, as services give it.
type part interface {
	proto.Message
	GetNextCursor() string
}

// collect reads parts of a list into one until it ends or the limit is reached.
func collect[R part](ctx context.Context, p pageFlags, ask func(context.Context, *apiv1.Page) (R, error)) (R, error) {
	var whole R
	for have, cursor := 0, p.cursor; ; {
		limit := uint32(largestPart)
		if p.limit > 0 {
			limit = min(limit, p.limit-uint32(have))
		}
		r, err := ask(ctx, &apiv1.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			return whole, err
		}
		n := r.ProtoReflect().Get(rowsField(r.ProtoReflect())).List().Len()
		whole = join(whole, r)
		have += n
		again := r.GetNextCursor() == cursor // a service that goes round would never end
		cursor = r.GetNextCursor()
		if cursor == "" || again || p.limit > 0 && have >= int(p.limit) {
			return whole, nil
		}
	}
}

// join adds a part to the whole; the cursor is the part's.
func join[R part](whole, r R) R {
	if !whole.ProtoReflect().IsValid() {
		return r
	}
	proto.Merge(whole, r)
	f := whole.ProtoReflect().Descriptor().Fields().ByName("next_cursor")
	whole.ProtoReflect().Set(f, protoreflect.ValueOfString(r.GetNextCursor()))
	return whole
}

// list reads a list and prints it.
func list[T proto.Message, R part](ctx context.Context, s *session, p pageFlags, l listing[T], ask func(context.Context, *apiv1.Page) (R, error)) error {
	whole, err := collect(ctx, p, ask)
	if err != nil {
		return err
	}
	if err := show(s, l, whole, rowsOf[T](whole)); err != nil {
		return err
	}
	s.sayMore(whole)
	return nil
}

// sayMore tells how to see the rest of a list.
func (s *session) sayMore(whole part) {
	if whole.GetNextCursor() != "" {
		s.say("there is more; go on with --cursor %s", quote(whole.GetNextCursor()))
	}
}

// deleted says that something was deleted.
func (s *session) deleted(noun, name string, err error) error {
	if err == nil {
		s.say("%s %s deleted", noun, name)
	}
	return err
}
