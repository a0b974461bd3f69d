package topology

import (
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// SnapshotSubjects are the subjects on which the bus and the user that provisions it exchange the parts of a snapshot.
const SnapshotSubjects = "$JS.SNAPSHOT.>"

// The metadata of a ledger that was moved to another bus. A bus creates a moved stream anew, and its time of creation
// tells ledgers apart.
const (
	metadataMovedAt = "garrison.moved_created" // when this bus created the stream
	metadataOrigin  = "garrison.origin"        // when the first bus did
	metadataAway    = "garrison.moved_away"    // when the cluster was complete; on the ledger of the old bus
)

// MovedSubjects matches the subjects of fenced streams. Only the user that provisions the bus may publish there.
const MovedSubjects = "garrison.moved.*"

// FencedSubject is the only subject of a fenced stream. Nothing that is published there is stored.
func FencedSubject(stream string) string { return "garrison.moved." + stream }

// Fenced returns the configuration of a stream that takes no messages, because it moves to another bus. It can still be
// read.
func Fenced(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Subjects, c.RePublish = []string{FencedSubject(c.Name)}, nil
	return c
}

// IsFenced reports whether a stream takes no messages, because it moves or has moved.
func IsFenced(c jetstream.StreamConfig) bool {
	return len(c.Subjects) == 1 && c.Subjects[0] == FencedSubject(c.Name)
}

// Moved returns the configuration of a ledger that was moved to this bus: it counts as created when the first one was.
func Moved(c jetstream.StreamConfig, created, origin time.Time) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[metadataMovedAt] = created.UTC().Format(time.RFC3339Nano)
	c.Metadata[metadataOrigin] = origin.UTC().Format(time.RFC3339Nano)
	return c
}

// HasMoved reports whether a ledger is complete on the bus to which it was moved. That is recorded last.
func HasMoved(c jetstream.StreamConfig) bool { return c.Metadata[metadataOrigin] != "" }

// Unmarked returns the metadata of a stream without what a move recorded there: a copy has not moved yet.
func Unmarked(metadata map[string]string) map[string]string {
	out := maps.Clone(metadata)
	for _, mark := range []string{metadataMovedAt, metadataOrigin, metadataAway} {
		delete(out, mark)
	}
	return out
}

// MovedAway returns the configuration of a ledger from which a cluster has all facts.
func MovedAway(c jetstream.StreamConfig, at time.Time) jetstream.StreamConfig {
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[metadataAway] = at.UTC().Format(time.RFC3339Nano)
	return c
}

// HasMovedAway reports whether a cluster has all facts of a ledger, and may have more.
func HasMovedAway(c jetstream.StreamConfig) bool {
	return IsFenced(c) && c.Metadata[metadataAway] != ""
}

// Origin returns when a stream was first created, on whichever bus: created, unless the metadata name another time for
// exactly this stream.
func Origin(metadata map[string]string, created time.Time) time.Time {
	if metadata[metadataMovedAt] != created.UTC().Format(time.RFC3339Nano) {
		return created
	}
	origin, err := time.Parse(time.RFC3339Nano, metadata[metadataOrigin])
	if err != nil {
		return created
	}
	return origin
}

// refuseMoved refuses a bus that moved, or whose move did not end.
func refuseMoved(have map[string]*jetstream.StreamConfig) error {
	for _, c := range have {
		if c != nil && IsFenced(*c) {
			return fault.Refuse(fault.Conflict, &apiv1.Refusal{
				Code: code.BusMoved, Component: "topology",
				Message: "the stream " + c.Name + " was moved to a cluster, or is about to; this bus takes no writes",
				Try: "connect to the cluster; if garrisond grow did not end, start garrisond with --services none, " +
					"then run garrisond grow again",
			})
		}
	}
	return nil
}
