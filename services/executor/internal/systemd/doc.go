// Package systemd runs the processes of agents as transient services of systemd, behind the interface
// supervise.Supervisor. It talks to systemd over the system bus.
//
// A slot (one version of one agent) is one service, named from a hash of the executor's root, the agent and the image.
// It exists in systemd's memory alone: nothing is written to the disk, nothing is enabled, and a reboot leaves nothing.
// systemd is the source of what runs; this package keeps no record of its own.
//
// Guarantees:
//
//  1. A slot has at most one process: a service's name is unique in systemd, and a process that supervise.Direct
//     started for the slot is ended before.
//  2. systemd restarts a process that ends, also while no executor runs. After too many ends it stops doing so,
//     and the executor does it with the waits of the policy.
//  3. An end is noticed even when systemd has started the next process already: an invocation has an id, and a file
//     descriptor of the process shows its end.
//  4. systemd receives and remembers READY=1: an executor that adopts a service knows whether it was ready.
//  5. An image's limits and sandbox hold, or it does not run: each start by the executor reads them from the kernel.
//     The word of systemd, or its version, is not enough: it starts a service also where the kernel or a container
//     denies it a controller or a namespace.
//  6. An agent's listening sockets stay open in its service from one process to the next, also while no executor runs.
//  7. Stop ends everything that a service started, and leaves nothing of it in systemd.
//
// It calls the bus with godbus: coreos/go-systemd has neither RefUnit nor GetUnitProcesses, and hides the connection to
// which a reference belongs.
package systemd
