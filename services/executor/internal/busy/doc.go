// Package busy keeps the critical sections of a server: times in which nothing on it may be changed, as a program on it
// says. A section is a file below the executor's root, so it needs neither the executor nor the bus.
//
//	backup begins a section ── the executor fetches, stages ── waits ── the section ends ── rehearses, switches
//
// Guarantees:
//
//  1. A section ends at its time, and at the latest with its process, if it has one. A process that got another one's
//     id is not that process.
//  2. A section does not begin while a change touches an agent: Begin waits for its end. A change does not touch an
//     agent while a section begins: Pass and Begin exclude each other by a lock of the kernel, which ends with the
//     process that holds it. Begin also waits while a change is open beside an agent, which outlives that process.
//  3. A file that cannot be read is no section, and a change that overruns does not wait for the lock: neither defers
//     changes for ever.
//  4. The time of a section counts from its beginning, not from when Begin was called.
package busy
