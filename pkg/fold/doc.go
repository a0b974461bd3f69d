// Package fold keeps a view of the ledger: it replays, says when it is ready, and
// keeps following. Rebuilding is the same call on an empty view.
//
//	f := fold.New(conn, view, fold.Options{Service: "registry", Layout: 1})
//	go f.Run(ctx)
//	<-f.Ready()
//	f.Read(func() { … look at the view … })
//
// Guarantees:
//
//  1. Apply sees each fact exactly once, in the ledger's order, from one goroutine.
//  2. What Read sees is the view after a whole number of facts, at Position.
//  3. A view is a function of the ledger: a fresh fold up to a position has the same
//     canonical encoding, byte for byte, as a live view at that position, whatever
//     snapshots were used between.
//  4. A snapshot holds its position in the same file, written whole or not at all. A
//     snapshot of another ledger, another layout or with a broken checksum is not
//     used; the ledger is replayed from the start instead.
//  5. A ledger that lost facts which the view holds, by a restored backup or a crash
//     without a sync, is another ledger, also when it has grown again since: it is
//     looked at whenever the bus comes back, and Run ends with a Conflict.
//  6. A fact that does not fit changes nothing, and is counted.
//
// Facts are decoded by several goroutines side by side and applied by one.
package fold
