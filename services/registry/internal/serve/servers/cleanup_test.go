package servers

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAnImpossibleCleanUpIsRefused(t *testing.T) {
	t.Parallel()
	dead := &serverv1.Server{Id: "gone", Life: serverv1.Life_LIFE_DEAD}
	good := &registryv1.RecordCleanUpRequest{Via: "ssh", Outcome: &reportv1.CleanUpOutcome{
		ServerId: "gone", At: timestamppb.Now(),
	}}
	type ask = *registryv1.RecordCleanUpRequest
	for name, c := range map[string]struct {
		change func(ask)
		code   string
	}{
		"as it should be":      {func(ask) {}, ""},
		"without an end":       {func(q ask) { q.Outcome = nil }, code.Invalid},
		"without a time":       {func(q ask) { q.Outcome.At = nil }, code.Invalid},
		"without a way":        {func(q ask) { q.Via = "" }, code.Invalid},
		"with a way too long":  {func(q ask) { q.Via = strings.Repeat("x", MaxVia+1) }, code.Invalid},
		"that was a dry run":   {func(q ask) { q.Outcome.DryRun = true }, code.Invalid},
		"refused with no code": {func(q ask) { q.Outcome.Refusal = &apiv1.Refusal{Message: "no"} }, code.Invalid},
		"of another":           {func(q ask) { q.Outcome.ServerId = "other" }, code.Invalid},
		"of one that lives":    {nil, code.NotDead},
	} {
		q, s := proto.CloneOf(good), proto.CloneOf(dead)
		if c.change == nil {
			s.Life = serverv1.Life_LIFE_ALIVE
		} else {
			c.change(q)
		}
		err := checkCleanUp(q)
		if err == nil {
			err = cleanable(s, q.Outcome)
		}
		if have := fault.RefusalOf(err).GetCode(); have != c.code {
			t.Errorf("%s: %v; want %q", name, err, c.code)
		}
	}
}
