// Package systemd runs agents' processes as transient services of systemd, behind the
// interface supervise.Supervisor. It talks to systemd over the system bus.
//
// A slot (one version of one agent) is one service, named from a hash of the executor's
// root, the agent and the image. It exists in systemd's memory alone: nothing of it is on
// the disk, nothing is enabled, and a reboot leaves nothing. What runs is systemd's to
// say; this package keeps no record of its own.
//
// Guarantees:
//
//  1. A slot has at most one process: systemd has one service of a name, and a process
//     that the supervisor Direct started for the slot is ended before.
//  2. systemd starts a process again that ends, also while no executor runs; what keeps
//     ending is given up by systemd and tried every Policy.Resting by the executor.
//  3. That a process ended is seen even when systemd has started the next one already: an
//     invocation is known by its id, and its end by a file descriptor of the process.
//  4. READY=1 goes to systemd, which remembers it: an executor that takes a service over
//     knows whether it was ready.
//  5. What an image may use and see is what its limits and sandbox say, or it does not
//     run: after each start of ours it is read from the kernel, not from systemd.
//  6. Sockets that an agent listens on are held by its service, also from one process to
//     the next while no executor runs.
//  7. Stop ends everything that a service started, and leaves nothing of it in systemd.
package systemd
