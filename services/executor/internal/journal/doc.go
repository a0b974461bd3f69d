// Package journal is the executor's memory on the disk: what it has, what it is
// changing, what it ended, and what it has still to say.
//
// Guarantees:
//
//  1. Update is all or nothing, and is on the disk when it returns (bbolt syncs each
//     transaction). A change's line is therefore there before its step is begun.
//  2. A task that ended, its report and the inventory after it are written in one
//     Update: after a crash they are all there, or the change is still open.
//  3. Report sequences of one journal only increase and are never used twice. A journal
//     has a random name, which its reports carry.
//  4. The journal has space of its own to grow into, so a full disk does not stop it at once.
//  5. Open never hands bbolt a file that it cannot read, never uses one that is older than
//     its mark, and never writes to one of a newer program. What cannot be used is set
//     aside, and Origin says why. Damage met later is ErrDamaged, not the end of the process.
//  6. The outbox keeps MaxOutbox reports at most, and the ended tasks are MaxEnded at most.
package journal
