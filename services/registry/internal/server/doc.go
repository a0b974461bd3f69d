// Package server is the noun server: where a machine is in its life, and whether it is
// heard. Everything here is pure: the time and what was heard are arguments.
//
// Guarantees:
//
//  1. Life is one table and only moves forward; a fact that does not fit changes nothing.
//  2. Judge is the only place that decides presence.
//  3. A dead server has no token, no key and no presence.
package server
