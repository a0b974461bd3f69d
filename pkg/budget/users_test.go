package budget

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// limits let a user cause three small facts, and report one.
var limits = Limits{User: 3 * overhead, Reporter: overhead}

func requested(actor string, noun ledger.Noun, body proto.Message, at time.Time) ledger.Fact {
	return ledger.Fact{Noun: noun, Key: "k", Body: body, At: at, Actor: actor, Cause: ledger.CausedByRequest("r")}
}

func TestAUserIsChargedForWhatItCausedAndNobodyElse(t *testing.T) {
	u := NewUsers()
	u.Apply(requested("ann", ledger.Hold, &blockv1.Lifted{}, noon))
	u.Apply(requested("ann", ledger.External, &externalv1.Gone{}, noon))
	for _, f := range []ledger.Fact{
		{Noun: ledger.Server, Body: &serverv1.Online{}, At: noon, Actor: "ann", Cause: ledger.CausedByBeat("s")},
		{Noun: ledger.Server, Body: &serverv1.Online{}, At: noon, Actor: topology.Services[0]},
	} {
		u.Apply(f)
	}
	var have []string
	for _, w := range u.Today(limits, "", noon) {
		have = append(have, w.String())
	}
	if len(have) != 2 || !strings.Contains(have[1], "over:true") || strings.Contains(have[0], "over:true") {
		t.Errorf("charged %q; want ann's request, and her report, which is over", have)
	}
	if u.Apply(requested("bob", ledger.Hold, &blockv1.Lifted{}, noon.Add(24*time.Hour))); u.Len() != 1 {
		t.Errorf("%d accounts are kept on the next day; want bob's", u.Len())
	}
}

func TestAUserOverTheBudgetMayOnlyStopThings(t *testing.T) {
	u := NewUsers()
	draft := func(body proto.Message) []ledger.Draft {
		return []ledger.Draft{ledger.OnKey(requested("ann", ledger.Hold, body, noon), 0)}
	}
	for n := range 3 {
		if err := u.Allow(limits, draft(&blockv1.Lifted{}), noon); err != nil {
			t.Fatalf("fact %d within the budget: %v", n, err)
		}
		u.Apply(requested("ann", ledger.Hold, &blockv1.Lifted{}, noon))
	}
	why := fault.RefusalOf(u.Allow(limits, draft(&blockv1.Lifted{}), noon))
	if why.GetCode() != code.UserBudget || !strings.Contains(why.Message, "ann") ||
		!strings.Contains(why.Message, "12h0m0s") {
		t.Errorf("beyond the budget: %v", why)
	}
	for _, body := range []proto.Message{
		&rolloutv1.Paused{}, &rolloutv1.Aborted{}, &serverv1.Quarantined{}, &serverv1.Revoked{},
	} {
		if err := u.Allow(limits, draft(body), noon); err != nil {
			t.Errorf("%T: %v", body, err)
		}
	}
	own := draft(&blockv1.Lifted{})
	own[0].Cause = ledger.CausedByFact(1) // what follows from an intent that was accepted before
	if err := u.Allow(limits, own, noon); err != nil {
		t.Errorf("a consequence is refused: %v", err)
	}
	if u.Beyond(limits, "ann", noon) {
		t.Error("no refusal is recorded any longer")
	}
	for range 2 + refusals/overhead {
		u.Apply(requested("ann", ledger.Hold, &blockv1.Lifted{}, noon))
	}
	if !u.Beyond(limits, "ann", noon) {
		t.Error("refusals are recorded without an end")
	}
	if tomorrow := noon.Add(12 * time.Hour); u.Refusal(limits, "ann", ledger.Hold, 1, tomorrow) != nil {
		t.Error("it is over the budget of the next day")
	}
}

func TestAnEighthMoreIsKeptForHolding(t *testing.T) {
	u, few := NewUsers(), Limits{User: 16 * overhead}
	allowed := func(body proto.Message) (n int) {
		wanted := []ledger.Draft{ledger.OnKey(requested("ann", ledger.Hold, body, noon), 0)}
		for n < 100 && u.Allow(few, wanted, noon) == nil {
			u.Apply(requested("ann", ledger.Hold, &blockv1.Lifted{}, noon))
			n++
		}
		return n
	}
	if other, holds := allowed(&blockv1.Lifted{}), allowed(&holdv1.Hold{}); other != 16 || holds != 2 {
		t.Errorf("%d requests are allowed, and %d holds after them; want 16 and 2", other, holds)
	}
}

func TestARecordChangesInABurstAndThenNowAndThen(t *testing.T) {
	for _, tick := range []time.Duration{time.Second, Every} {
		f := requested("ann", ledger.External, &externalv1.Gone{}, noon)
		var changed []bool
		until := Until(nil, f.At)
		for n := range 2 * Burst {
			now := noon.Add(time.Duration(n) * tick)
			may := MayChange(until, now)
			if changed = append(changed, may); may {
				until = Until(until, now)
			}
		}
		if all := !slices.Contains(changed, false); all != (tick == Every) {
			t.Errorf("changes each %v: %v", tick, changed)
		}
	}
}
