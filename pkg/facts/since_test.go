package facts_test

import (
	"context"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A client that asks for the facts since a time, and gets none, continues behind the end of the answer. While facts are
// recorded, that end must not pass one that is as new.
func TestTheEndOfAnAnswerPassesNoFactOfTheTimeAsked(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	read := ask(t, b)
	w := b.Writer(t, b.Dial(t, "writer"))
	bustest.Go(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_, _ = w.Append(ctx, ledger.Free(ledger.Fact{
				Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}, ID: ident.New(), At: time.Now(),
				Actor: "bob", Source: ledger.Server.Writer(),
			}))
		}
		return nil
	})
	empty := 0
	for n := range 400 {
		since := time.Now().Add(time.Duration(n%20) * 100 * time.Microsecond)
		answer, err := read(&request{Since: timestamppb.New(since), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Facts) > 0 || answer.End == 0 {
			continue
		}
		empty++
		end, err := read(&request{From: answer.End, Limit: 1})
		if err != nil || len(end.Facts) != 1 {
			t.Fatalf("read fact %d: %v, %v", answer.End, end, err)
		}
		if stored := end.Facts[0].StoredAt.AsTime(); !stored.Before(since) {
			t.Fatalf("no fact since %v and the end at %d, which was stored at %v", since, answer.End, stored)
		}
	}
	if _, err := read(&request{Since: timestamppb.New(time.Unix(math.MaxInt32, 0)), Limit: 1}); err != nil {
		t.Error(err)
	}
	t.Logf("%d answers were empty", empty)
}
