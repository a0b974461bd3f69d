// Package supervise runs agents' processes behind one interface, Supervisor. Direct, which
// is here, starts them itself and needs nothing else; what follows is about it.
//
// A process belongs to a slot (one version of one agent). Each start is written down in
// the slot's record before the process exists, with a token that the process carries in
// its environment. So a restarted executor finds every process that it started, whenever
// it was killed, and takes it over instead of starting a second one.
//
// Guarantees:
//
//  1. A slot has at most one process, also across crashes of the executor.
//  2. A process is known by its id, its start time and the boot: a reused id is never
//     taken for an agent, and is never signalled.
//  3. Stop ends the whole process group, and what left the group or the session: SIGTERM, and
//     SIGKILL after the time-out. When a process ends by itself, what it left is killed
//     before another one is started. What left is known by the token (package kin). What
//     the kernel does not let go keeps no process from being started again; it stays in the
//     record, and Stop fails until it has ended.
//  4. A kept process that ends is started again after an exponential back-off; one that
//     keeps ending is tried every Policy.Resting only, and says so.
//  5. The executor's own end does not touch the processes: their output goes to a file,
//     not to a pipe, and they are in sessions of their own.
//  6. An output file is cut at Policy.OutputBytes, keeping the part before in output.log.1.
//     It is looked at every 2 s at least, and every 50 ms while it grows beyond that.
//  7. Limits and confinements that it cannot keep are refused before anything is touched.
package supervise
