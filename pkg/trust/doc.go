// Package trust makes and keeps the keys and JWTs of one Garrison: the operator, the
// accounts SYS, CORE, NODES and OPS, and the users in them (NATS operator mode).
//
// Guarantees:
//
//  1. Private keys are files of mode 0600 in directories of mode 0700, written whole or not at all.
//  2. A server's own private key never leaves the server: it sends the public half and gets a JWT for it.
//  3. What a server, a guest or a person may do stands in the account's JWT, as the
//     template of a scoped signing key; a user's JWT carries only a name, a key and a tag.
//  4. The registry holds two signing keys, for servers and for guests, the key that signs
//     tombstones, and nothing else.
//  5. The service access holds the operator key and the keys that sign people (Issuer). It alone
//     changes an account while the bus runs, and only the keys that the account refuses.
//  6. Opening an authority that an older version made brings what users may do up to
//     date. No key changes, so all credentials stay valid.
//
// Sources: NATS documentation on decentralised JWT authentication, scoped signing keys.
package trust
