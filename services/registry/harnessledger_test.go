package registry

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"google.golang.org/protobuf/proto"
)

// append records facts of other services.
func (s *site) append(drafts ...ledger.Draft) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last := s.appendAsync(drafts...)
	if err := s.r.follower.Wait(ctx, last); err != nil {
		s.t.Fatal(err)
	}
}

// appendAsync records facts of other services and does not wait until the registry folds them.
func (s *site) appendAsync(drafts ...ledger.Draft) uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last, err := s.core.Append(ctx, drafts...)
	if err != nil {
		s.t.Fatalf("append: %v", err)
	}
	return last
}

func fact(noun ledger.Noun, key string, body proto.Message) ledger.Draft {
	return ledger.Free(ledger.Fact{
		Noun: noun, Key: key, Body: body, ID: ident.New(), At: time.Now(), Source: noun.Writer(), Actor: noun.Writer(),
	})
}
