// Package ledger is the one ordered log of facts: the kinds of facts, their
// writers, and their encoding as messages.
//
// A fact is a protobuf message about one noun and one key. Its subject is
// garrison.ledger.NOUN.KEY.FACT; its headers are the CloudEvents attributes in binary
// mode (CloudEvents 1.0, NATS protocol binding 1.0.2) and Garrison's own:
//
//	ce-specversion      1.0
//	ce-id               a UUID, also the message id for de-duplication
//	ce-type             the message's protobuf name, such as garrison.task.v1.Queued
//	ce-source           garrison/SERVICE
//	ce-subject          NOUN/KEY
//	ce-time             when it was decided, RFC 3339 with nanoseconds
//	Garrison-Actor      who asked, or the service when it acted by itself
//	Garrison-Request    the id of the request or intent that all of it began with
//	Garrison-Cause      what led to this very fact: intent/ID, report/SERVER/N, fact/SEQUENCE or request/ID
//	traceparent         the W3C trace context of the cause, if it had one
//
// Guarantees:
//
//  1. Kinds lists every fact there is. A message that is not in it does not decode.
//  2. Decode(Encode(f)) returns f.
//  3. A kind that was ever written is never renamed or removed.
package ledger
