// Package decide records what a service decides: it reads the service's view, takes a decision
// on it, appends the facts with their guards, and waits until the view holds them. When another
// replica recorded something first, it decides again on a fresh view.
//
//	decider := decide.New(decide.Config{Service: ledger.Registry, Ledger: conn, View: follower, Writer: writer})
//	_, err := decider.Do(ctx, func() ([]ledger.Draft, error) {
//		if exists(name) {
//			return nil, refusal // final once the view is up to date
//		}
//		f := decider.Fact(decide.By(caller), ledger.Agent, name, &agentv1.Created{Agent: agent})
//		return []ledger.Draft{ledger.OnKey(f, sequence(name))}, nil
//	})
//
// Guarantees:
//
//  1. A decision runs while the view stands still, as in fold.Follower.Read, so it must not block.
//  2. When Do returns without an error, the view holds the recorded facts, or there were none to
//     record. The facts of one decision are recorded all or none.
//  3. No error of a decision or a query is returned from a stale view: before the first one is
//     believed, the view is brought up to the end of the ledger and the question is asked again.
//  4. A guard that does not hold leads to a new decision on a view that has caught up, at most
//     Tries times in all, with a random pause that doubles. After the last one the error is
//     Unavailable and wraps the conflict.
//  5. Any other error of the append is returned as it is. An error of kind Unavailable leaves open
//     whether the facts were recorded; a decision must be safe to take twice.
//
// A Decider is safe for concurrent use. It starts no goroutine and holds no lock while it waits.
package decide
