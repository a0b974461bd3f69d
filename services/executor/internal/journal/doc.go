// Package journal is the executor's memory on the disk: what it has, what it is
// changing, what it ended, and what it has still to say.
//
// Guarantees:
//
//  1. Update is all or nothing, and is on the disk when it returns (bbolt syncs each
//     transaction). A change's line is therefore there before its step is begun.
//  2. A task that ended, its report and the inventory after it are written in one
//     Update: after a crash they are all there, or the change is still open.
//  3. Report sequences increase for ever and are never given twice.
//  4. The journal has space of its own to grow into, so a full disk does not stop it at once.
//  5. The outbox keeps MaxOutbox reports at most, and the ended tasks are MaxEnded at most.
package journal
