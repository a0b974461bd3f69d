package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Stream is what a fold must know of a stream.
type Stream struct {
	LastSequence uint64
	Messages     uint64 // fewer than LastSequence when some are missing
	Numbers      topology.Numbers
	Created      time.Time // tells two streams of one name apart; a move to another bus does not change it
	SyncsAlways  bool      // what is stored is on the disk; false when that is not known
	Now          time.Time // the time at the bus when it answered; zero when it did not say
}

// Missing returns how many messages up to the last one the stream does not hold.
func (s Stream) Missing() uint64 { return s.LastSequence - min(s.Messages, s.LastSequence) }

// Stream reads where a stream ends, what it lacks, when it was created, and the time at the bus.
func (r *streamReader) Stream(ctx context.Context, stream string) (Stream, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := r.streamInfo(ctx, stream, nil)
	if err != nil {
		return Stream{}, fmt.Errorf("ask about stream %s: %w", stream, err)
	}
	return Stream{
		LastSequence: info.State.LastSequence, Messages: info.State.Messages,
		Numbers:     topology.NumbersOf(info.Config.Metadata),
		Created:     topology.Origin(info.Config.Metadata, info.Created),
		SyncsAlways: info.Config.Metadata[topology.MetadataSync] == topology.SyncAlways, Now: info.Now,
	}, nil
}

func (r *streamReader) lastSequence(ctx context.Context, stream string) (uint64, error) {
	s, err := r.Stream(ctx, stream)
	return s.LastSequence, err
}

type streamInfo struct {
	Total   int       `json:"total"`
	Created time.Time `json:"created"`
	Now     time.Time `json:"ts"`
	Config  struct {
		Metadata map[string]string `json:"metadata"`
	} `json:"config"`
	State struct {
		Messages     uint64            `json:"messages"`
		LastSequence uint64            `json:"last_seq"`
		Subjects     map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Cluster struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Name    string        `json:"name"`
			Offline bool          `json:"offline"`
			Active  time.Duration `json:"active"` // since the leader heard it
		} `json:"replicas"`
	} `json:"cluster"`
	Error *struct {
		Code        int    `json:"code"`
		Description string `json:"description"`
	} `json:"error"`
}

func (r *streamReader) streamInfo(ctx context.Context, stream string, ask map[string]any) (streamInfo, error) {
	var info streamInfo
	var body []byte
	if ask != nil {
		var err error
		if body, err = json.Marshal(ask); err != nil {
			return info, err
		}
	}
	m, err := r.session.request(ctx, &nats.Msg{Subject: r.api + ".STREAM.INFO." + stream, Data: body})
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return info, err
	}
	if info.Error != nil && info.Error.Code == 404 {
		return info, fault.New(fault.NotFound, "%s", info.Error.Description)
	}
	if info.Error != nil {
		return info, fault.New(fault.Unavailable, "%s", info.Error.Description)
	}
	return info, nil
}

// LeaderSettles is how long a new leader of a stream may apply nothing of what the one before announced, or of what a
// replica that is ahead of it answered.
const LeaderSettles = 10 * time.Second

// StreamFrom is Stream for a caller that has read up to a sequence. On a bus with several servers the leader answers
// how far it has applied what it stores, and a new one may be behind what the caller has read. So it is asked again
// while it applies more, and for LeaderSettles after that, before a stream counts as shorter.
func (r *streamReader) StreamFrom(ctx context.Context, stream string, read uint64) (Stream, error) {
	grew, last := time.Now(), uint64(0)
	for wait := replayLag; ; wait = min(2*wait, replayPoll) {
		s, err := r.Stream(ctx, stream)
		if err != nil || s.LastSequence >= read || !r.session.ofSeveral() {
			return s, err
		}
		if s.LastSequence > last {
			grew, last = time.Now(), s.LastSequence
		}
		if time.Since(grew) > LeaderSettles {
			return s, nil
		}
		sleep(ctx, wait)
	}
}

// WaitStream waits until a stream is there and has a leader, which is when the bus was provisioned and enough of its
// servers run. It logs that it waits.
func (r *streamReader) WaitStream(ctx context.Context, stream string) error {
	for said := false; ; said = true {
		_, err := r.lastSequence(ctx, stream)
		if err == nil {
			return nil
		}
		if !said && ctx.Err() == nil {
			r.session.log.Info().Err(err).Str("stream", stream).Msg("waiting until the bus has the stream and a leader")
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "wait for stream %s: %w (last: %v)", stream, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Subjects lists the subjects of a stream that match filter and hold a message. It asks
// the server's API queue, so it is not for hot paths.
func (r *streamReader) Subjects(ctx context.Context, stream, filter string) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var out []string
	for {
		info, err := r.streamInfo(ctx, stream, map[string]any{"subjects_filter": filter, "offset": len(out)})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", filter, err)
		}
		for s := range info.State.Subjects {
			out = append(out, s)
		}
		if len(out) >= info.Total || len(info.State.Subjects) == 0 {
			return out, nil
		}
	}
}

// Purge deletes every message on the subjects that match filter.
func (r *streamReader) Purge(ctx context.Context, stream, filter string) error {
	if err := CheckStores(ctx); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]string{"filter": filter})
	if err != nil {
		return err
	}
	m, err := r.session.request(ctx, &nats.Msg{Subject: r.api + ".STREAM.PURGE." + stream, Data: body})
	if err != nil {
		return fmt.Errorf("purge %s: %w", filter, err)
	}
	if _, err := parseAck(m.Data); err != nil {
		return fmt.Errorf("purge %s: %w", filter, err)
	}
	return nil
}

// Quorum is what the leader of a stream knows of the servers of the bus that keep it.
type Quorum struct {
	Leader string
	Others int      // how many servers keep the stream besides the leader
	Silent []string // those of them that the leader has not heard for a while, sorted
}

// Quorum asks the leader of a stream for the servers that keep it. silentFor is for how long the leader must not have
// heard one; it hears each of them once a second. Nothing answers while there is no leader, or when the connection is
// to a server that is cut off from it. On a bus with one server, that one leads, without others.
func (r *streamReader) Quorum(ctx context.Context, stream string, silentFor time.Duration) (Quorum, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := r.streamInfo(ctx, stream, nil)
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
