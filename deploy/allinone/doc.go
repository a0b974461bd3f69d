// Package allinone runs a whole Garrison in one process: an embedded nats-server with
// JetStream on disk, and the registry, the image-catalog, the task-dispatcher and access. Each
// service has its own constructor, connection and credentials, exactly as in a process of
// its own.
//
// A data directory holds everything:
//
//	format          the number of the directory's format; an older program refuses a newer one
//	trust/          keys, JWTs, credentials and the CA of the bus, mode 0600 (package trust)
//	jetstream/      the streams
//	views/          snapshots of the services' views, and how far each has read the ledger;
//	                without the latter the loss of the ledger's end is not detected
//	accounts/       the accounts of the bus, as the service access last changed them
//	operator.json   the context of the first operator, for garrison --context
//	address         the address it listens at, to be reachable at the same one after a restart;
//	                a damaged file is replaced by a new address
//	lock            held by the running process, so that two never share a directory
package allinone
