// Package presence decides from a server's beats, or their absence, which facts about the server
// are due: online and offline, the condition that its executor reports, and two executors that
// beat with one identity. Everything here is pure: the time and the beats are arguments.
//
// Guarantees:
//
//  1. Decide is the only function that decides presence.
//  2. A server is called offline only after three beat intervals without a beat, in which this process could receive
//     one. What reached the bus and waits for this process counts as received. After the start of this process, after
//     the bus was unreachable and after this process stood still, each server is also given the time to connect again.
//  3. While more than ten servers and a fifth of all are silent, none is called offline, for sixty intervals at most.
//  4. A late server, which missed a beat, is derived and never a fact.
//  5. How often one server can cause these facts is bounded. Package bounds cut its beats before.
package presence
