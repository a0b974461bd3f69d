// Package rolling connects rollouts with the fleet: it plans one on the view, and derives the intents that reach its
// servers. What happens when is package rollout's matter. It is pure: the same arguments lead to the same facts under
// the same ids.
//
// Guarantees:
//
//  1. A plan decides each step for each server as an intent of its own would.
//  2. A rollout that carries the guard of its plan is accepted with exactly that plan, waves included, or refused.
//  3. What is derived for servers is recorded whole, guarded by the rollout's key and by each instance's, so that a
//     pause or a halt that was recorded first wins, and no server is reached twice.
package rolling
