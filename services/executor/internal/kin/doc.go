// Package kin finds and ends the processes that come from one start, wherever they went: a
// child that leaves its group and its session still has the environment that it was
// started with, and in there a token that no other start has.
//
//	token := kin.NewToken()
//	cmd.Env = append(cmd.Env, kin.Mark(token))
//	…
//	err := kin.End(token, time.Second)
//
// Guarantees:
//
//  1. Only a process that carries the token is signalled. It is looked at once more when the
//     kernel holds it for us (pidfd_open(2)), so a reused process id is never signalled. Where
//     that cannot be had, it is looked at right before, with its start time before and after.
//  2. End returns nil when no process that can be found carries the token any more.
//  3. Nothing waits for a process that hangs: one that is older than the token is not looked
//     at, and another one has half a second to show its environment.
//
// A process that was started without the environment, wrote over it, does not show it in
// time, or is of a user whose environment we may not read is not found. Below finds those
// that run from a place, whoever started them, and ends none.
package kin
