// Package client talks to a Garrison control plane: it publishes intents and waits for their decisions, plans, lists
// objects, watches work until it ends, follows the ledger, and sends and fetches images. The garrison CLI, the tests in
// e2e and programs of other teams are built on it.
//
// Open connects with a context file, which names the bus, the actor and the actor's credentials. The requests and
// answers are the protobuf messages of proto/garrison; Call sends any of them:
//
//	c, err := client.Open(ctx, "operator.json")
//	…
//	defer c.Close()
//	r, err := client.Call[*registryv1.GetServerResponse](ctx, c, &registryv1.GetServerRequest{Server: "web-1"})
//
// Guarantees:
//
//  1. Every wait ends: a call after Options.Timeout or with its context, whichever is first; everything that waits
//     for longer (Decision, Await, Watch, Follow, Activate) with its context. Its error then wraps context.Cause. A
//     call or a publish that was not answered is repeated with its id while an outage of the bus or of a service
//     lasts, for six times Options.Timeout (30 s) at most, which is longer than an election and the leaving of a server
//     that stands still. OnWait hears of it once. When a repeated change is refused, the ledger is searched for the
//     change, so that what an earlier try stored is called stored.
//  2. An error has a kind (package fault). A refusal of a service, or of the registry in its decision about an intent,
//     travels in the error unchanged (fault.RefusalOf). When the bus forbids a call, the call fails at once with kind
//     Denied and code DENIED.
//  3. An intent is decided at most once, however often Publish is retried with the same id. NotStored tells from an
//     error of Publish that the intent is not stored. When the decision is not known, Submit's error says so and names
//     the id; Decision asks again.
//  4. A dry run is Plan: it writes nothing. An intent published with the guard of a plan does what the plan showed, or
//     is refused with PLAN_STALE. All parts of one plan are of the same state of the fleet, or Plan returns a conflict.
//  5. Lists are read in parts, each a call of its own; no more than one part is held. A row that changes meanwhile may
//     be missing or in its old state.
//  6. Follow yields every fact of the ledger behind a position exactly once and in order, also across disconnects and
//     restarts of the bus. When it cannot, because facts are missing or because the ledger was set back (as by a
//     restored backup), it ends with a *ResetError that says where to continue. With Query.Noun or Query.Key only a
//     ledger that was set back is detected, not missing facts.
//  7. Import sends only the chunks that the catalog lacks, so an interrupted import continues where it stopped. The
//     same file again sends nothing.
//  8. Memory is bounded: one part of a list, 500 facts, four chunks of an image.
//
// A Client is safe for concurrent use.
package client
