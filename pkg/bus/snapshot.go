package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// snapshotChunk is the size of a part of a snapshot; it fits the largest message of the bus.
	snapshotChunk = 512 << 10
	// snapshotWindow bounds the bytes of a snapshot that are on their way.
	snapshotWindow = 8 << 20
	// partWithin bounds the wait for one part of a snapshot, and for the bus to take one.
	partWithin = 10 * time.Second
)

// Snapshot is a whole stream as the bus writes it: every message with its sequence, time and headers, and the consumers
// with what they have acknowledged.
type Snapshot struct {
	Config jetstream.StreamConfig
	State  jetstream.StreamState

	sub *nats.Subscription
}

// failing is the error in an answer of the JetStream API.
type failing struct {
	Error *jetstream.APIError `json:"error"`
}

// OpenSnapshot begins a snapshot of a stream. The caller reads it with WriteTo at once: the bus waits for 5 s.
func (s *Streams) OpenSnapshot(ctx context.Context, stream string) (*Snapshot, error) {
	sub, err := s.conn.nc.SubscribeSync(s.conn.nc.NewInbox())
	if err != nil {
		return nil, requestError(err)
	}
	out := &Snapshot{sub: sub}
	var answer struct {
		failing
		Config *jetstream.StreamConfig `json:"config"`
		State  *jetstream.StreamState  `json:"state"`
	}
	answer.Config, answer.State = &out.Config, &out.State
	err = s.askJetStream(ctx, "STREAM.SNAPSHOT."+stream, map[string]any{
		"deliver_subject": sub.Subject, "chunk_size": snapshotChunk, "window_size": snapshotWindow,
	}, &answer)
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("begin a snapshot of stream %s: %w", stream, err)
	}
	return out, nil
}

// WriteTo writes the snapshot, once.
func (s *Snapshot) WriteTo(w io.Writer) (written int64, err error) {
	defer func() { _ = s.sub.Unsubscribe() }()
	for {
		m, err := s.sub.NextMsg(partWithin)
		if err != nil {
			return written, fault.New(fault.Unavailable, "snapshot of stream %s, after %d bytes: %w", s.Config.Name,
				written, err)
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return written, fault.New(fault.Unavailable, "snapshot of stream %s: the bus ended it after %d bytes: "+
					"%s %s", s.Config.Name, written, status, m.Header.Get("Description"))
			}
			return written, nil
		}
		n, err := w.Write(m.Data)
		written += int64(n)
		if err != nil {
			return written, err
		}
		if m.Reply != "" {
			if err := m.Respond(nil); err != nil {
				return written, requestError(err)
			}
		}
	}
}

// Restore makes a stream of a snapshot that was opened on another bus, or read from a file.
// The configuration is that of the new stream: its replicas and the like may differ from those of the snapshot, its
// name may not. It refuses a stream that exists.
func (s *Streams) Restore(
	ctx context.Context, config jetstream.StreamConfig, state jetstream.StreamState, r io.Reader,
) error {
	var answer struct {
		failing
		Deliver string `json:"deliver_subject"`
	}
	request := map[string]any{"config": config, "state": state}
	for end := time.Now().Add(partWithin); ; {
		answer.Error = nil
		err := s.askJetStream(ctx, "STREAM.RESTORE."+config.Name, request, &answer)
		if err == nil && answer.Error != nil {
			err = answer.Error
		}
		if err == nil {
			break
		}
		if answer.Error != nil && NotReady(err) && time.Now().Before(end) { // it was refused, so nothing began
			sleep(ctx, replicaEvery)
			continue
		}
		return fmt.Errorf("begin to restore stream %s: %w", config.Name, err)
	}
	err := s.sendParts(ctx, config.Name, answer.Deliver, r)
	if err != nil {
		s.endRestore(answer.Deliver)
	}
	return err
}

// sendParts hands the bus a snapshot, and waits for the stream that it makes of it.
func (s *Streams) sendParts(ctx context.Context, stream, subject string, r io.Reader) error {
	part := make([]byte, snapshotChunk)
	for {
		n, err := io.ReadFull(r, part)
		if n > 0 {
			if err := s.sendPart(ctx, subject, part[:n]); err != nil {
				return fmt.Errorf("restore stream %s: %w", stream, err)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the snapshot of stream %s: %w", stream, err)
		}
	}
	if err := s.sendPart(ctx, subject, nil); err != nil { // the end
		return fmt.Errorf("restore stream %s: %w", stream, err)
	}
	return nil
}

// endRestore ends a restore that failed: the bus refuses a part that asks for no answer. Without it the bus would wait
// for the next part for 5 s, and would not stop before.
func (s *Streams) endRestore(subject string) {
	if err := s.conn.nc.Publish(subject, nil); err == nil {
		_ = s.conn.nc.FlushTimeout(partWithin)
	}
}

// sendPart hands the bus a part of a snapshot. It answers with nothing, or with the error that ended the restoring.
func (s *Streams) sendPart(ctx context.Context, subject string, part []byte) error {
	if len(part) > 0 { // the end is answered when the stream is there, whose size decides how long that takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, partWithin)
		defer cancel()
	}
	m, err := s.requestOnceThere(ctx, subject, part)
	if err != nil {
		return requestError(err)
	}
	var answer failing
	if len(m.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fault.New(fault.Unavailable, "read the answer: %w", err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// requestOnceThere sends a request to a server of the bus that was about to subscribe. Another server may learn of that
// a moment later, and until then no server gets the request.
func (s *Streams) requestOnceThere(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	for end := time.Now().Add(partWithin); ; {
		m, err := s.conn.nc.RequestWithContext(ctx, subject, data)
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(end) {
			return m, err
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// askJetStream sends a request to the JetStream API and decodes the answer.
func (s *Streams) askJetStream(ctx context.Context, method string, request, answer any) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := s.conn.nc.RequestWithContext(ctx, topology.CoreAPI+"."+method, data)
	if err != nil {
		return requestError(err)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fault.New(fault.Unavailable, "read the answer of the bus to %s: %w", method, err)
	}
	return nil
}

// copyTo makes a stream of the configuration's name on another bus from this one's: all messages and consumers.
// It returns the state of the stream that was copied, and the size of the snapshot.
func (s *Streams) copyTo(
	ctx context.Context, to *Streams, config jetstream.StreamConfig,
) (state jetstream.StreamState, bytes int64, err error) {
	from, err := s.OpenSnapshot(ctx, config.Name)
	if err != nil {
		return state, 0, err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := from.WriteTo(w)
		bytes = n
		_ = w.CloseWithError(err) // nil means the end
	}()
	err = to.Restore(ctx, config, from.State, r)
	_ = r.CloseWithError(context.Canceled) // ends the snapshot when the other bus refused it
	<-done
	return from.State, bytes, err
}

// SnapshotHead is what Restore needs of a stream besides the snapshot itself, to be kept with it as JSON.
type SnapshotHead struct {
	Config jetstream.StreamConfig `json:"config"`
	State  jetstream.StreamState  `json:"state"`
}

// Head returns the head of a snapshot.
func (s *Snapshot) Head() SnapshotHead { return SnapshotHead{s.Config, s.State} }
