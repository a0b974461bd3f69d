// Package allinone is a whole Garrison in one process: an embedded nats-server with
// JetStream on disk, and the registry, the image-catalog and the task-dispatcher, each
// made by its own constructor and connected with its own credentials. Nothing is
// wired otherwise than when each runs in a process of its own.
//
// A data directory holds everything:
//
//	format          the number of the directory's format; an older program refuses a newer one
//	trust/          keys, JWTs and credentials, mode 0600 (package trust)
//	jetstream/      the streams
//	views/          snapshots of the services' views, and how far each has read the ledger;
//	                without the latter a ledger that lost its end is not noticed
//	operator.json   the context of the first operator, for garrison --context
//	address         where it listens, so that it is found at the same place after a restart;
//	                a damaged one is replaced by a new address
//	lock            held while it runs, so that two never share a directory
package allinone
