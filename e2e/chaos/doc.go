// Package chaos runs a fleet through rounds of random faults under load, and checks after
// each round that nothing was lost, done twice or shown wrongly.
//
// A round publishes intents of every verb at a steady rate while its faults strike, then
// mends what a person would mend (starts what was killed, empties a full disk), waits
// until all is quiet, and compares:
//
//  1. every acknowledged intent is decided exactly once, and the other invariants of
//     package invariant hold over the whole ledger; no two facts have one id;
//  2. what the registry lists = what answers over HTTP = what runs in /proc = what the
//     disk's links lead to = the configuration that is read, on every server;
//  3. every service's live view equals a fresh fold of the ledger, byte for byte;
//  4. no process without an instance, no temporary file, and nothing left of a server that died;
//  5. memory, descriptors and threads of the control plane stay bounded.
//
// Schedule is pure: a seed always leads to the same rounds. What happens in them is as
// random as the machine.
package chaos
