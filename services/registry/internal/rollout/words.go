package rollout

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Words returns a decision in words.
func (d Decision) Words() string {
	switch {
	case d.Open > 0:
		return fmt.Sprintf("wave %d opened", d.Open)
	case d.Pass > 0:
		return fmt.Sprintf("wave %d passed", d.Pass)
	case len(d.Release) > 0 && d.Step > 0:
		return fmt.Sprintf("step %d on %s of wave %d began", d.Step, some(len(d.Release)), d.Wave)
	case len(d.Release) > 0:
		return fmt.Sprintf("%s of wave %d released", some(len(d.Release)), d.Wave)
	case len(d.Silence) > 0:
		return some(len(d.Silence)) + " silent for too long"
	case len(d.Prime) > 0:
		return some(len(d.Prime)) + " asked to fetch ahead"
	case d.Halt != nil:
		return "halted: " + d.Halt.Message
	case d.Succeed:
		return "succeeded, owing " + some(int(d.Owed))
	}
	return "nothing; it waits for " + d.Waits
}

// Words returns a recorded decision in words.
func (s Replayed) Words() string { return decisionOf(s.Fact.Body).Words() }

// decisionOf returns the decision that a fact records.
func decisionOf(body proto.Message) Decision {
	switch b := body.(type) {
	case *rolloutv1.Opened:
		return Decision{Open: b.Wave}
	case *rolloutv1.Passed:
		return Decision{Pass: b.Wave}
	case *rolloutv1.Released:
		return Decision{Release: b.ServerIds, Wave: b.Wave, Step: b.Step}
	case *rolloutv1.Silenced:
		return Decision{Silence: b.ServerIds}
	case *rolloutv1.Primed:
		return Decision{Prime: b.ServerIds}
	case *rolloutv1.Halted:
		return Decision{Halt: b.Reason, Wave: b.Wave}
	case *rolloutv1.Succeeded:
		return Decision{Succeed: true, Owed: b.Owed}
	}
	return Decision{}
}
