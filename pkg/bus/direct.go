package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Announced returns the sequence of the stored message that a bell announces; 0 when it names none. It is what the
// sender wrote, and proves nothing.
func (m Message) Announced() uint64 {
	sequence, err := strconv.ParseUint(ofBus(m.Header, headerSequence), 10, 64)
	if err != nil {
		return 0
	}
	return sequence
}

// Pushed returns the message of a stream that the bus stored on a subject and sends with this one, as a bell does;
// false without one. Other senders can have messages of other subjects delivered here, as answers to their requests.
func (m Message) Pushed(subject string) (Message, bool) {
	if len(m.Data) == 0 || ofBus(m.Header, headerSubject) != subject {
		return Message{}, false
	}
	s, err := stored(&nats.Msg{Header: m.Header, Data: m.Data})
	return s, err == nil
}

// DirectGet reads the last message on one subject of a stream, without a consumer. It puts
// the subject into the request's own subject, because only that form can be restricted by
// permissions. The error is NotFound when the subject has no message.
func (c *Conn) DirectGet(ctx context.Context, stream, subject string) (Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m, err := c.request(ctx, &nats.Msg{Subject: c.api + ".DIRECT.GET." + stream + "." + subject})
	if err != nil {
		return Message{}, fmt.Errorf("read %s: %w", subject, err)
	}
	return stored(m)
}

// Everything is the filter for every message of a stream. The bus compares it with no subject. It compares any other
// filter with wildcards with each subject that the stream has, in each read: with millions of facts that takes seconds.
const Everything = ">"

// DirectGetFrom reads up to n messages from a place in a stream on, in order. filter may hold wildcards; see
// Everything.
// Fewer than n means that the replica that answered has no more now; one that lags behind may have fewer than the
// leader.
func (c *Conn) DirectGetFrom(ctx context.Context, stream, filter string, from uint64, n int) ([]Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]any{"seq": max(from, 1), "batch": n, "next_by_subj": filter})
	if err != nil {
		return nil, err
	}
	once, done, explain := c.overLink(ctx)
	defer done()
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, requestError(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(c.api+".DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, requestError(err)
	}
	var out []Message
	for {
		m, err := sub.NextMsgWithContext(once)
		if err != nil {
			return nil, fmt.Errorf("read %s from %d: %w", stream, from, requestError(explain(err)))
		}
		if status := statusOf(m.Header); status == "204" || status == "404" {
			return out, nil // the end of the batch, or nothing there at all
		}
		s, err := stored(m)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
}

// stored reads a message that came by direct get.
func stored(m *nats.Msg) (Message, error) {
	switch status := statusOf(m.Header); status {
	case "":
	case "404":
		return Message{}, fault.New(fault.NotFound, "no message")
	case "503":
		return Message{}, fault.New(fault.Unavailable, "no stream answers")
	default:
		return Message{}, fault.New(fault.Internal, "direct get: %s %s", status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(ofBus(m.Header, headerSequence), 10, 64)
	if err != nil {
		return Message{}, fault.New(fault.Internal, "direct get answered without a sequence: %w", err)
	}
	at, _ := time.Parse(time.RFC3339Nano, ofBus(m.Header, headerTime))
	return Message{
		Subject: ofBus(m.Header, headerSubject), Header: m.Header, Data: m.Data, Sequence: seq, Time: at,
	}, nil
}

// DirectGetLast reads the last message of a stream on the subjects that match filter. The
// error is NotFound when no message matches.
func (c *Conn) DirectGetLast(ctx context.Context, stream, filter string) (Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]string{"last_by_subj": filter})
	if err != nil {
		return Message{}, err
	}
	m, err := c.request(ctx, &nats.Msg{Subject: c.api + ".DIRECT.GET." + stream, Data: body})
	if err != nil {
		return Message{}, fmt.Errorf("read the end of %s: %w", stream, err)
	}
	return stored(m)
}

// Purge deletes every message on the subjects that match filter.
func (c *Conn) Purge(ctx context.Context, stream, filter string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	body, err := json.Marshal(map[string]string{"filter": filter})
	if err != nil {
		return err
	}
	m, err := c.request(ctx, &nats.Msg{Subject: c.api + ".STREAM.PURGE." + stream, Data: body})
	if err != nil {
		return fmt.Errorf("purge %s: %w", filter, err)
	}
	if _, err := parseAck(m.Data); err != nil {
		return fmt.Errorf("purge %s: %w", filter, err)
	}
	return nil
}

// Subjects lists the subjects of a stream that match filter and hold a message. It asks
// the server's API queue, so it is not for hot paths.
func (c *Conn) Subjects(ctx context.Context, stream, filter string) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var out []string
	for {
		info, err := c.streamInfo(ctx, stream, map[string]any{"subjects_filter": filter, "offset": len(out)})
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

// Stream is what a fold must know of a stream.
type Stream struct {
	LastSequence uint64
	Messages     uint64    // fewer than LastSequence when some are missing
	Created      time.Time // tells two streams of one name apart; a move to another bus does not change it
	SyncsAlways  bool      // what is stored is on the disk; false when that is not known
	Now          time.Time // the time at the bus when it answered; zero when it did not say
}

// Missing returns how many messages up to the last one the stream does not hold.
func (s Stream) Missing() uint64 { return s.LastSequence - min(s.Messages, s.LastSequence) }

// Stream reads where a stream ends, what it lacks, when it was created, and the time at the bus.
func (c *Conn) Stream(ctx context.Context, stream string) (Stream, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := c.streamInfo(ctx, stream, nil)
	if err != nil {
		return Stream{}, fmt.Errorf("ask about stream %s: %w", stream, err)
	}
	return Stream{
		LastSequence: info.State.LastSequence, Messages: info.State.Messages,
		Created:     topology.Origin(info.Config.Metadata, info.Created),
		SyncsAlways: info.Config.Metadata[topology.MetadataSync] == topology.SyncAlways, Now: info.Now,
	}, nil
}

func (c *Conn) lastSequence(ctx context.Context, stream string) (uint64, error) {
	s, err := c.Stream(ctx, stream)
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

func (c *Conn) streamInfo(ctx context.Context, stream string, ask map[string]any) (streamInfo, error) {
	var info streamInfo
	var body []byte
	if ask != nil {
		var err error
		if body, err = json.Marshal(ask); err != nil {
			return info, err
		}
	}
	m, err := c.request(ctx, &nats.Msg{Subject: c.api + ".STREAM.INFO." + stream, Data: body})
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
