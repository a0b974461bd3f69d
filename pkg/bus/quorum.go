package bus

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Quorum is what the leader of a stream knows of the servers of the bus that keep it.
type Quorum struct {
	Leader string
	Others int      // how many servers keep the stream besides the leader
	Silent []string // those of them that the leader has not heard for a while, sorted
}

// Quorum asks the leader of a stream for the servers that keep it. silentFor is for how long the leader must not have
// heard one; it hears each of them once a second. Nothing answers while there is no leader, or when the connection is
// to a server that is cut off from it. On a bus with one server, that one leads, without others.
func (c *Conn) Quorum(ctx context.Context, stream string, silentFor time.Duration) (Quorum, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := c.streamInfo(ctx, stream, nil)
	if err != nil {
		return Quorum{}, fmt.Errorf("ask about the replicas of stream %s: %w", stream, err)
	}
	q := Quorum{Leader: info.Cluster.Leader, Others: len(info.Cluster.Replicas)}
	for _, r := range info.Cluster.Replicas {
		if r.Offline || r.Active >= silentFor {
			q.Silent = append(q.Silent, r.Name)
		}
	}
	slices.Sort(q.Silent)
	return q, nil
}
