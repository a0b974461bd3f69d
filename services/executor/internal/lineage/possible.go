package lineage

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
