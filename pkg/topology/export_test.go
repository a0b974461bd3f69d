package topology

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// EnsureStreams is Ensure of a program with other streams.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, b Bus, streams []jetstream.StreamConfig) (Plan, error) {
	p, err := look(ctx, js, b, streams)
	if err != nil {
		return p, err
	}
	return p, p.apply(ctx, js)
}

// CopyDeadLetters does what the move of the dead letters does before it deletes the old stream.
func CopyDeadLetters(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	streams := Streams(1)
	i := slices.IndexFunc(streams, func(s jetstream.StreamConfig) bool { return s.Name == DeadLetter })
	if _, err := js.CreateStream(t.Context(), streams[i]); err != nil {
		t.Fatal(err)
	}
	if err := copyDeadLetters(t.Context(), js, streams[i]); err != nil {
		t.Fatal(err)
	}
}
