// Package proctree finds and ends all processes that descend from one start, orphans included. A child that leaves
// its process group and its session still has the environment of the start, and in it a token that no other start
// has.
//
//	token := proctree.NewToken()
//	cmd.Env = append(cmd.Env, proctree.Mark(token))
//	…
//	err := proctree.End(token, time.Second)
//
// A subreaper (PR_SET_CHILD_SUBREAPER) would lose its orphans with the executor's own death, and could not tell which
// start an orphan comes from. A control group is not writable everywhere. The token survives both.
//
// Guarantees:
//
//  1. Only a process that carries the token is signalled. The token is checked again while a pidfd holds the process
//     (pidfd_open(2)), so a reused process id is never signalled. Where pidfd_open is not available, the token is
//     checked right before the signal, with the start time before and after.
//  2. End returns nil when no process that can be found carries the token.
//  3. No hanging process blocks a caller: a process that is older than the token is skipped, and any other has half a
//     second to show its environment.
//
// A process that was started without the environment, overwrote it, does not show it in time, or belongs to a user
// whose environment is not readable is not found. Below finds the processes that run from a directory, with or without
// a token, and ends none; EndBelow ends those that execute a file there.
package proctree
