package bus

import "github.com/nats-io/nats.go/jetstream"

// SnapshotHead is what Restore needs of a stream besides the snapshot itself, to be kept with it as JSON.
type SnapshotHead struct {
	Config jetstream.StreamConfig `json:"config"`
	State  jetstream.StreamState  `json:"state"`
}

// Head returns the head of a snapshot.
func (s *Snapshot) Head() SnapshotHead { return SnapshotHead{s.Config, s.State} }
