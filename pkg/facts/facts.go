package facts

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// MostFacts is the largest number of facts of an answer.
	MostFacts = 500
	// MostBytes is the size with which an answer ends.
	MostBytes = 512 << 10

	usualFacts = 100
	readWithin = 10 * time.Second
	sincePause = 20 * time.Millisecond
	everything = ">"
	typePrefix = "type.googleapis.com/"
)

// reader reads the ledger for people.
type reader struct {
	conn *bus.Conn
	gate *gate
}

// Serve answers the method ReadFacts.
func Serve(s *bus.Service, conn *bus.Conn) error {
	r := &reader{conn: conn, gate: newGate(time.Now)}
	return bus.Handle(s, "ReadFacts", r.read)
}

func (r *reader) read(
	ctx context.Context, by bus.Caller, q *registryv1.ReadFactsRequest,
) (*registryv1.ReadFactsResponse, error) {
	filter, err := filterOf(q)
	if err != nil {
		return nil, err
	}
	if q.GetLimit() > MostFacts {
		return nil, fault.Refusef(fault.Invalid, code.BadPage,
			"a part of %d facts; %d are the most", q.GetLimit(), MostFacts)
	}
	leave, err := r.gate.enter(by.Actor)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	answer, err := r.part(ctx, q, filter)
	leave(proto.Size(answer))
	return answer, err
}

// part reads one part of the ledger and where the ledger ends.
func (r *reader) part(
	ctx context.Context, q *registryv1.ReadFactsRequest, filter string,
) (*registryv1.ReadFactsResponse, error) {
	answer := &registryv1.ReadFactsResponse{}
	from := q.GetFrom()
	if q.GetSince() != nil {
		first, found, err := r.since(ctx, q.GetSince().AsTime())
		if err != nil {
			return nil, err
		}
		if !found {
			answer.End = first - 1
			return answer, nil
		}
		from = max(from, first)
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = usualFacts
	}
	stored, more, err := r.conn.DirectGetPart(ctx, topology.Ledger,
		bus.Part{Filter: filter, From: from, Count: limit, Bytes: MostBytes})
	if err != nil {
		return nil, err
	}
	fill(answer, stored, q.GetBelow(), more)
	last, err := r.conn.DirectGetLast(ctx, topology.Ledger, everything)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	answer.End = last.Sequence
	return answer, nil
}

// since returns the sequence of the first fact that was stored at a time or later or, when none is found, that of the
// next one. That no fact is as new must follow from one message, the last one: between two readings a fact may be
// recorded, and the second may be answered by a replica that is ahead of the first.
func (r *reader) since(ctx context.Context, at time.Time) (sequence uint64, found bool, err error) {
	for {
		first, _, err := r.conn.DirectGetPart(ctx, topology.Ledger,
			bus.Part{Filter: everything, Since: at, Count: 1, Bytes: 1})
		if err != nil {
			return 0, false, err
		}
		if len(first) > 0 {
			return first[0].Sequence, true, nil
		}
		last, err := r.conn.DirectGetLast(ctx, topology.Ledger, everything)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return 0, false, err
		}
		if last.Time.Before(at) {
			return last.Sequence + 1, false, nil
		}
		select {
		case <-ctx.Done():
			return 0, false, fault.New(fault.Unavailable, "the replicas of the ledger do not agree where it ends")
		case <-time.After(sincePause):
		}
	}
}

// fill puts facts into an answer until one does not fit, or is not below a sequence; 0 sets no such bound.
func fill(answer *registryv1.ReadFactsResponse, stored []bus.Message, below uint64, more bool) {
	size := 0
	for _, m := range stored {
		if below > 0 && m.Sequence >= below {
			return
		}
		f := factOf(m)
		n := proto.Size(f)
		if n > MostBytes {
			f.Body, f.UnknownBody, f.LeftOutBytes = nil, nil, uint64(len(m.Data))
			n = proto.Size(f)
		}
		if size += n; size > MostBytes && len(answer.Facts) > 0 {
			answer.Next = m.Sequence
			return
		}
		answer.Facts = append(answer.Facts, f)
	}
	if n := len(answer.Facts); more && n > 0 {
		answer.Next = answer.Facts[n-1].Sequence + 1
	}
}

// factOf returns a message of the ledger without the headers of the bus.
func factOf(m bus.Message) *registryv1.StoredFact {
	f := &registryv1.StoredFact{
		Sequence: m.Sequence, StoredAt: timestamppb.New(m.Time), Subject: m.Subject, Headers: map[string]string{},
	}
	for name, values := range m.Header {
		if isFacts(name) && len(values) > 0 {
			f.Headers[name] = values[0]
		}
	}
	url := typePrefix + f.Headers["ce-type"]
	if _, err := protoregistry.GlobalTypes.FindMessageByURL(url); err != nil {
		f.UnknownBody = m.Data
		return f
	}
	f.Body = &anypb.Any{TypeUrl: url, Value: m.Data}
	return f
}
