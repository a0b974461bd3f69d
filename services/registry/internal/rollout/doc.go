// Package rollout decides how a rollout goes: which servers each wave has, what happens next and where each server is.
// It is pure: the time, the counts and the servers come in as arguments, so the registry, the forecast, the replay of a
// rollout from the ledger and the property tests run the same code.
//
//	layout, err := rollout.Waves(candidates, strategy, id)
//	decision := rollout.Decide(input)
//	from, to := rollout.Move(target, event)
//	rollout.Count(record, target.Wave, from, to, at)
//
// Guarantees:
//
//  1. Waves depends on its arguments alone, whatever the order of the candidates.
//  2. Decide releases no server of a wave that is not open, and of none while the rollout does not run.
//  3. Decide releases no server once more servers are newly broken than the strategy allows, so the limit is exceeded
//     only by servers that were under way.
//  4. Decide releases no server whose change could take the last server away that a keep budget needs.
//  5. A decision costs time by the number of waves and of released servers, not of the servers in the rollout. A keep
//     budget that holds servers back adds the servers that it holds back.
package rollout
