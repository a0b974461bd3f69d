// Package external is the life of the noun external: an instance of an agent that Garrison tracks and does not run. The
// registry writes the noun.
//
//	next, fit := external.Apply(record, fact)
//
// Guarantees:
//
//  1. A record exists from its first report until it is gone.
//  2. Since changes only with the health.
package external

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Table{
	declared.Absent:  {"reported": declared.Present},
	declared.Present: {"reported": declared.Present, "gone": declared.Absent},
}

// Apply folds a fact into an instance's record, which is nil for an unknown instance, and returns the record after it;
// nil means that the instance is gone. It returns false, and the record unchanged, for a fact that does not fit.
func Apply(have *externalv1.External, f ledger.Fact) (*externalv1.External, bool) {
	exists, fit := declared.Next(Life, have != nil, f.Name())
	if fit && !exists {
		return nil, true
	}
	b, ok := f.Body.(*externalv1.Reported)
	if !fit || !ok || b.Found == nil {
		return have, false
	}
	return reported(have, f, b.Found), true
}

func reported(have *externalv1.External, f ledger.Fact, found *externalv1.Found) *externalv1.External {
	agent, _, _ := strings.Cut(f.Key, ".")
	at := timestamppb.New(f.At)
	next := &externalv1.External{
		Agent: agent, Found: proto.CloneOf(found), Reporter: f.Actor, CreatedAt: at, ChangedAt: at, Since: at,
		ChangedUntil: budget.Until(have.GetChangedUntil(), f.At),
	}
	if have != nil {
		next.CreatedAt = have.CreatedAt
		if have.GetFound().GetHealth() == found.Health {
			next.Since = have.Since
		}
	}
	return next
}
