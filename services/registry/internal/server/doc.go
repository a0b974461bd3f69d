// Package server is the noun server: where a machine is in its life, and whether it is
// heard. Everything here is pure: the time and what was heard are arguments.
//
// Guarantees:
//
//  1. Life is one table and only moves forward; a fact that does not fit changes nothing.
//  2. Judge is the only place that decides presence.
//  3. A dead server has no token, no key, no presence, and nothing that was found on it.
//  4. What a server says was found on it is cut to a bounded fact (Found), and is the same
//     whatever the order in which it says it.
package server
