package topology

import (
	"context"

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
