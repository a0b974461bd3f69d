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
//     Beside what is under way it releases no more than the strategy lets break, or one, and begins each wave with two
//     servers and one more for each that succeeded: so a halt finds at most one more broken than the limit. That holds
//     neither in an emergency nor on the way back.
//  4. Decide releases no server whose change could take the last server away that a keep budget needs.
//  5. Replay comes to every recorded decision again, from the facts and at the time that the decision rested on.
//  6. Decide begins a step of a server's changes only after every change of the step before succeeded there.
//  7. Decide opens no wave before the time at which the rollout is to begin.
//  8. Decide releases no server whose environment is closed, except in the emergency lane and by an override.
//  9. Decide has servers fetch ahead only while their environment is closed to changes and open to that, never more
//     than 100 at once, and only when there is nothing else to do.
//  10. A decision costs time by the number of waves and of released servers, not of the servers in the rollout. A keep
//     budget or a closed environment that holds servers back adds the servers that it holds back, and an environment
//     that fetches ahead the pending servers that do not yet.
//
// # The comparison with unchanged servers
//
// Servers become unhealthy or silent by themselves. The comparison asks whether changed servers do so more often than
// servers that are not changed yet, whatever the rate is. Each time a server breaks while n1 changed and n0 unchanged
// servers are at risk, it is a changed one with the chance n1/(n1+n0), if a change makes no difference. If changed
// servers break at ρ times the rate, the chance is ρn1/(ρn1+n0). The product of the quotients of both, over all servers
// that broke since the wave began, is a martingale with mean 1 as long as a change makes no difference, and so is the
// mean of the products for ρ = 2, 4, 8 and 16. By Ville's inequality the chance that it ever reaches 1/α is at most α,
// however often it is looked at. So a wave halts without cause at most at the rate α = Strategy.compare_permille/1000.
//
// This is the anytime-valid logrank test of ter Schure, Pérez-Ortiz, Ly and Grünwald (The New England Journal of
// Statistics in Data Science 2, 2024, doi:10.51387/24-NEJSDS65), with a mixture instead of one alternative. The bound
// assumes that both groups are alike but for the change: a strategy that changes the frailest servers first breaks the
// assumption, and a random order within waves keeps it. A resume begins the comparison anew.
package rollout
