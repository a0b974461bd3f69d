// Package supervise runs the processes of agents behind one interface, Supervisor. Direct starts them itself and needs
// nothing else; package systemd has the other implementation. The restart policy (policy.go) is the same for both.
//
// A process belongs to a slot: one version of one agent. Direct writes each start to the slot's record before the
// process exists, with a token that the process carries in its environment (package proctree). So a restarted executor
// finds every process that an earlier one started, whenever that was killed, and adopts it instead of starting a second
// one.
//
// Guarantees of Direct:
//
//  1. A slot has at most one process, also across crashes of the executor.
//  2. A process is identified by its id, its start time and the boot. A reused id is neither adopted nor signalled.
//  3. Stop ends the whole process group and the orphans that left the group or the session: SIGTERM, and SIGKILL after
//     the time-out. When a process ends by itself, what it left is killed before the next start. A process that the
//     kernel cannot kill does not block a start; it stays in the record, and Stop fails until it has ended.
//  4. A kept process that ends is started again after an exponential back-off, which is never longer than it has been
//     failing, and over as soon as a known cause is gone. One that keeps ending is reported as a crash loop.
//  5. The end of the executor does not affect the processes: their output goes to a file, not to a pipe, and they lead
//     sessions of their own.
//  6. An output file is cut when Policy.OutputBytes are found in it; the part before is kept in output.log.1. Its size
//     is read every 2 s at least, and up to every 25 ms the faster it grows.
//  7. Output is read by positions that stay valid when the file is cut (read.go). The files are opened without
//     following links, so that an agent cannot have the executor read or write another file.
//  8. Limits and confinements that it cannot enforce are refused before anything changes.
package supervise
