package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// refusing returns what a decision rests on while a block keeps the rollout from every server.
func refusing(b *rollout.Book, at time.Time) rollout.Input {
	in := b.Input(at)
	in.Refused = func(string) *apiv1.Refusal {
		return &apiv1.Refusal{Code: code.Blocked, Message: "ann blocked web 2.0.0"}
	}
	return in
}

func TestALaterStepBeginsOnNoServerThatABlockKeepsItFrom(t *testing.T) {
	b, at := &rollout.Book{}, time.Unix(1000, 0)
	for _, body := range []proto.Message{
		&rolloutv1.Planned{
			Strategy: rollout.Filled(nil), Waves: []uint32{1}, Part: 1, Parts: 1, Targets: []*rolloutv1.Target{{
				ServerId: "a", Wave: 1, Changes: []*rolloutv1.Change{{Agent: "db", Step: 1}, {Agent: "web", Step: 2}},
			}},
		},
		&rolloutv1.Opened{Wave: 1}, &rolloutv1.Released{Wave: 1, ServerIds: []string{"a"}},
	} {
		if !b.Fold(ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body, At: at}) {
			t.Fatalf("%T does not fit", body)
		}
	}
	b.Apply("a", rollout.Event{Kind: rollout.Ended, At: at, OK: true})
	if d := rollout.Decide(b.Input(at)); d.Step != 2 || !slices.Equal(d.Release, []string{"a"}) {
		t.Fatalf("without a block: %+v; want the second step", d)
	}
	if d := rollout.Decide(refusing(b, at)); d.Halt.GetCode() != code.Blocked || len(d.Release) > 0 {
		t.Errorf("with a block: %+v; want it to halt", d)
	}
}

func TestOwedServersThatABlockHoldsBackAreNamed(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(2)})
	y.expect("open", "release a1 b1", underWay)
	y.ends(true, "a1", "b1")
	y.expect("pass", "open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
	y.ends(true, "c2", "d2")
	y.expect("pass", "succeed", "")
	y.Apply("o0", rollout.Event{Kind: rollout.Back, At: y.now})
	d := rollout.Decide(refusing(&y.Book, y.now))
	if d.Acts() || !strings.Contains(d.Waits, "ann blocked web 2.0.0: 1 server that is owed held back") {
		t.Errorf("decided %+v", d)
	}
	y.expect("release o0", "")
}
