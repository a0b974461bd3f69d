package rollout

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Replayed is one recorded decision about a rollout, beside what is decided on the same facts now.
type Replayed struct {
	Fact    ledger.Fact
	Decided Decision
	Same    bool
}

// Replay makes the recorded decisions about a rollout again while the ledger is folded from its beginning.
type Replay struct {
	steps []Replayed
	done  int
}

// NewReplay returns a replay of the decisions among facts about one rollout, in the order of the ledger.
func NewReplay(facts iter.Seq[ledger.Fact]) *Replay {
	p := &Replay{}
	for f := range facts {
		if basisOf(f.Body) != nil {
			p.steps = append(p.steps, Replayed{Fact: f})
		}
	}
	return p
}

// End returns the ledger position up to which facts must be folded.
func (p *Replay) End() uint64 {
	if len(p.steps) == 0 {
		return 0
	}
	return p.steps[len(p.steps)-1].Fact.Sequence
}

// Before makes the decisions that rested on facts before a sequence. It is called before the fact at the sequence is
// folded.
func (p *Replay) Before(sequence uint64, decide func(basis *rolloutv1.Basis) Decision) {
	for p.done < len(p.steps) && basisOf(p.steps[p.done].Fact.Body).Sequence < sequence {
		s := &p.steps[p.done]
		s.Decided = decide(basisOf(s.Fact.Body))
		s.Same = same(s.Fact.Body, s.Decided)
		p.done++
	}
}

// Steps returns the decisions that were made again, in their order.
func (p *Replay) Steps() []Replayed { return p.steps[:p.done] }

// Basis returns what a recorded decision rested on.
func (s Replayed) Basis() *rolloutv1.Basis { return basisOf(s.Fact.Body) }

// basisOf returns what a decision rested on; nil for any other fact.
func basisOf(body proto.Message) *rolloutv1.Basis {
	if b, ok := body.(interface{ GetBasis() *rolloutv1.Basis }); ok {
		return b.GetBasis()
	}
	return nil
}

// same reports whether a recorded fact is what was decided. A registry may release fewer servers than the engine
// names, or have fewer fetch ahead, where the intents of all would not fit into one batch.
func same(body proto.Message, d Decision) bool {
	switch b := body.(type) {
	case *rolloutv1.Opened:
		return d.Open == b.Wave
	case *rolloutv1.Passed:
		return d.Pass == b.Wave
	case *rolloutv1.Halted:
		return d.Halt != nil && d.Wave == b.Wave && d.Halt.Code == b.Reason.GetCode() // words change with versions
	case *rolloutv1.Succeeded:
		return d.Succeed && d.Owed == b.Owed
	case *rolloutv1.Silenced:
		return len(d.Silence) > 0 && slices.Equal(d.Silence, b.ServerIds)
	case *rolloutv1.Primed:
		n := len(b.ServerIds)
		return n > 0 && n <= len(d.Prime) && slices.Equal(d.Prime[:n], b.ServerIds)
	case *rolloutv1.Released:
		return sameRelease(b, d)
	}
	return false
}

func sameRelease(b *rolloutv1.Released, d Decision) bool {
	alike := d.Wave == b.Wave && d.Step == b.Step && len(b.ServerIds) > 0
	return alike && !slices.ContainsFunc(b.ServerIds, func(id string) bool {
		return !slices.Contains(d.Release, id)
	})
}
