// Package defaults decides which agents the servers of an environment lack and get. It is pure: it reads the view and
// returns intents, plans and counts.
//
// Guarantees:
//
//  1. A default installs an agent where it is missing. An instance that exists, at whatever image and by whatever
//     intent, stays as it is; so does an agent that no instance explains.
//  2. A default is due on a server that joined the environment after the default was first set, or that was in it when
//     the default was set for all. It is not due where the agent was removed since: that removal stands until the
//     default is set for all again or the server joins again.
//  3. Derive returns one intent for many servers, under an id that is computed from the default and from the state of
//     each server, and guarded by the environment and each instance: of two replicas that derive the same, one wins.
//     A derived intent is never refused, because it names only servers that it changes.
//  4. A default waits for a rollout that brings its agent to a server, until the rollout served it, or was aborted or
//     undone.
//  5. PlanSet and PlanMove decide as Derive will once the change is recorded, and draft nothing.
package defaults
