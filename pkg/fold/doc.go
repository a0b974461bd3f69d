// Package fold keeps a view of the ledger: it replays the ledger, signals when the view is ready, and follows
// new facts. Rebuilding is the same call on an empty view.
//
//	f := fold.New(conn, view, fold.Options{Service: "registry", Layout: 1})
//	go f.Run(ctx)
//	<-f.Ready()
//	f.Read(func() { … look at the view … })
//
// Guarantees:
//
//  1. Apply sees each fact exactly once, in the ledger's order, from one goroutine.
//  2. Read sees the view after a whole number of facts, at Position.
//  3. A view is a function of the ledger: a fresh fold up to a position has the same
//     canonical encoding, byte for byte, as a live view at that position, whatever
//     snapshots were used between.
//  4. A snapshot holds its position in the same file, written whole or not at all. A
//     snapshot that is damaged, of another ledger, or of a program that knew other facts
//     or folded otherwise (FormatDigest) is not used; the ledger is replayed from the start
//     instead. One in a newer format is refused by its number and never written over.
//  5. A ledger that lacks facts which the view holds, also when it has grown again since,
//     ends Run with a Conflict: LEDGER_SHORT, or LEDGER_GAP when facts between others are
//     missing. Run checks the ledger at each start and after each reconnection to the bus.
//     The mark, SERVICE.mark in the store, records across restarts how far the ledger was
//     read. It is written each second and at the end, and only while the bus acknowledges
//     nothing before it is on the disk. Options.AcceptLedger continues without the lost facts.
//  6. A fact that does not fit changes nothing, and is counted.
//  7. A fact that this program cannot read changes nothing but its key's sequence, is
//     counted apart, and blocks every decision that rests on its noun (MayDecide,
//     NewWriter). The counts are part of snapshots.
//
// Facts are decoded by several goroutines side by side and applied by one.
package fold
