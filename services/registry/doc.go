// Package registry is the service that decides what is wanted on which server and records what is
// there. It decides intents, receives reports and beats, admits servers, and alone writes the nouns
// application, environment, agent, server, instance and intent.
//
// Its view is a fold over the ledger (internal/view). Each handler reads the view, decides in a pure
// package below internal, and records facts that are guarded by the sequences that the decision was
// made on (pkg/decide). Replicas share the work without talking to each other: of two that decide
// the same, one wins and the other decides again.
//
// What runs is below internal/serve, a package for each subject: intents, rollouts, servers, beats,
// reports, … All build on its package records, the view and what is recorded on decisions about it.
// The other packages below internal decide, without a bus, a clock or a log.
//
// Guarantees:
//
//  1. An intent with a readable subject is in the ledger exactly once, as accepted or refused,
//     whatever was killed and however many registries run.
//  2. A write is answered once the view of the answering replica holds it, and nothing is refused
//     on a view that lags behind the ledger. A list may lag, by milliseconds.
//  3. Only differences become facts: a report, a beat or a request that repeats what is recorded
//     writes nothing. The exception is the first sysinfo report that answers a refresh. What changes
//     too often waits, and a server that fills the ledger is quarantined (internal/intake).
//  4. A secret is shown once and only its hash is kept.
//  5. Every wait has a deadline, and every table in memory is bounded by the fleet.
package registry
