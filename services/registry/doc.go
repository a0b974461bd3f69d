// Package registry is the service that answers what is wanted and what is there. It
// decides intents, hears reports and beats, admits servers, and alone writes the nouns
// application, environment, agent, server, instance and intent.
//
// Everything that it knows is a fold over the ledger (internal/view). Each handler
// looks at that view, decides in a pure core, and records facts that are guarded by the
// sequences that the decision was made on. Replicas share the work without talking to
// each other: of two that decide the same, one wins and the other looks again.
//
// Guarantees:
//
//  1. An intent with a readable subject is in the ledger exactly once, as accepted or
//     refused, whatever was killed and however many registries run.
//  2. A write is answered once the view of the replica that answers holds it, and nothing
//     is refused on a view that is behind the ledger. A list may be, by milliseconds.
//  3. Only differences become facts: a report, a beat or a request that says what is
//     already recorded writes nothing. The exception is a sysinfo report that was asked
//     for, which is recorded as the answer.
//  4. A secret is shown once and only its hash is kept.
//  5. Every wait has a deadline, and every table in memory is bounded by the fleet.
package registry
