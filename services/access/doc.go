// Package access is the service that answers who may connect. It alone writes facts about users, and
// it alone tells the bus which keys to refuse.
//
// Guarantees:
//
//  1. What the bus refuses follows from the ledger and the time alone, so that several processes of
//     the service push the same, in any order.
//  2. A key is refused within about a second of the fact that shuts it out, on every server of the bus, and
//     its connections end. A bus that lost the list gets it again.
//  3. No private key of a user reaches the service: it signs public keys.
//  4. One server has three open connections at most; the newest beyond them are ended.
//  5. Every request is safe to repeat. Only a user who exists cannot be created again.
package access
