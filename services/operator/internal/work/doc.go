// Package work publishes intents: it shows the registry's plan, asks for confirmation, publishes exactly that plan,
// and watches.
//
//  1. The plan is the registry's answer. Nothing of it is computed here.
//  2. An intent carries the digest of the plan that was shown. When the fleet changed in between, nothing is done and
//     the exit code is 8.
//  3. An intent is published under a new id that is also its message id, so that a retry stores it once.
package work
