// Package lineage decides whether a document continues the history that its server has followed. It is pure.
//
// Guarantees:
//
//  1. A document is taken only when its epoch is higher, or when the ledger it is made from is known to hold the
//     document that was applied last.
//  2. A document of a lower epoch is never taken.
//  3. A document whose epoch or generation no ledger can have reached is never taken, so that a forged one cannot
//     make the server deaf to all later ones. The registry can always raise an epoch above the one that was taken.
//  4. One look decides nothing that a lagging replica can explain: Patience raises a relation when it persists.
package lineage

import (
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
)

// Position is a position in the history of a server's document.
type Position struct {
	Epoch      uint64 // 0 counts as 1
	Generation uint64
	Mark       uint64 // of the fact at the generation; 0 when it is not known
}

// Relation is what a document is to its server.
type Relation uint8

// The relations.
const (
	Same       Relation = iota // the one that was applied last
	Next                       // a later one of the same history, or of a higher epoch
	Behind                     // the ledger does not hold the one that was applied last
	Unproven                   // the ledger may hold it: the lineage does not reach back so far
	Impossible                 // no ledger can have come so far: it is forged or damaged
)

// Codes are the codes of relations with which a document is not taken.
var Codes = map[Relation]string{
	Behind: code.LedgerBehind, Unproven: code.PlaceUnproven, Impossible: code.ImpossibleDocument,
}

// Of returns the position of a document.
func Of(d *desiredv1.Document) Position {
	p := Position{Epoch: max(d.GetEpoch(), 1), Generation: d.GetGeneration()}
	p.Mark, _ = mark(d, p.Generation)
	return p
}

// mark returns the mark of a generation of a document's lineage, and whether it is there.
func mark(d *desiredv1.Document, generation uint64) (uint64, bool) {
	n := slices.Index(d.GetLineageGenerations(), generation)
	if n >= 0 && n < len(d.GetLineageMarks()) {
		return d.GetLineageMarks()[n], true
	}
	if generation > 0 && generation == d.GetConfirmedGeneration() {
		return d.GetConfirmedMark(), true
	}
	return 0, false
}

// Compare relates a document to the position of the one that was applied last.
func Compare(have Position, d *desiredv1.Document) Relation {
	is := Of(d)
	have.Epoch = max(have.Epoch, 1)
	switch {
	case impossible(have, is):
		return Impossible
	case have.Generation == 0 && have.Mark == 0 && is.Epoch >= have.Epoch, is.Epoch > have.Epoch:
		return Next
	case is.Epoch < have.Epoch, is.Generation < have.Generation:
		return Behind
	case is.Generation == have.Generation:
		if have.Mark != 0 && is.Mark != 0 && have.Mark != is.Mark {
			return Behind
		}
		return Same
	}
	return compareLater(have, d)
}

// compareLater relates a document of the same epoch and a later generation.
func compareLater(have Position, d *desiredv1.Document) Relation {
	lineage := d.GetLineageGenerations()
	if len(lineage) == 0 || have.Mark == 0 {
		return Next // one of the two is of a time without marks
	}
	switch known, ok := mark(d, have.Generation); {
	case ok && known == have.Mark:
		return Next
	case ok, have.Generation > lineage[0]:
		return Behind
	}
	return Unproven
}

const (
	patientFor   = 2 * time.Second
	patientReads = 2
)

// Patience waits until a document that is not taken was read several times in a row, for a while. The zero value is
// ready.
type Patience struct {
	relation Relation
	since    time.Time
	reads    int
}

// Observe notes the relation of a document that was read, and reports whether the relation stands.
func (p *Patience) Observe(v Relation, now time.Time) bool {
	if v != p.relation || p.reads == 0 {
		*p = Patience{relation: v, since: now}
	}
	p.reads++
	return Codes[v] != "" && p.reads >= patientReads && now.Sub(p.since) >= patientFor
}

// ReadAgainAfter is how long after a document that was not taken it is read again, until the relation stands.
const ReadAgainAfter = patientFor

// A generation is the sequence of a fact in the ledger, so it grows by one for each fact of the whole fleet. An epoch
// grows by one each time that an operator accepts a loss.
const (
	maxGeneration = 1 << 53 // 285 years of a million facts a second
	maxFacts      = 1 << 40 // facts while a server was offline: 35 years of a thousand a second
	maxFirstEpoch = 1 << 61 // the registry raises epochs up to 1<<62
	maxLosses     = 1 << 10 // losses that were accepted while a server was offline
)

// impossible reports whether no ledger can have come from one position to another.
func impossible(have, is Position) bool {
	if is.Generation > maxGeneration || is.Generation > have.Generation && is.Generation-have.Generation > maxFacts {
		return true
	}
	if have.Generation == 0 && have.Mark == 0 {
		return is.Epoch > maxFirstEpoch
	}
	return is.Epoch > have.Epoch && is.Epoch-have.Epoch > maxLosses
}
