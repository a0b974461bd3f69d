// Package facts answers people who read the ledger: the method ReadFacts of the registry.
//
// People have no permission to read the stream itself, because a direct get takes any filter and sends as much as is
// asked for. Here a read has a size, a rate and a filter that the service builds.
//
// Guarantees:
//
//  1. An answer has at most MostFacts facts and about MostBytes bytes. A body that is larger than an answer is left
//     out, and the answer has its size.
//  2. An actor has at most ReadsPerActor reads at a time and BytesPerSecond, and all actors together ReadsAtOnce reads.
//     Beyond that a read is refused at once with BUSY and the time after which it may be repeated.
//  3. A read takes at most readWithin.
//  4. No text of a request is used as a pattern: a noun and a kind are those of package ledger, and a key has no
//     wildcard.
//  5. The facts of an answer are in order, and none between them matches the filter and is missing.
package facts

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

const (
	// MostFacts is the largest number of facts of an answer.
	MostFacts = 500
	// MostBytes is the size with which an answer ends.
	MostBytes = 512 << 10

	// near is the longest range that is read whole and filtered here. For a filter with wildcards the bus counts at
	// each request what matches on every subject of the ledger, which takes longer the more subjects there are.
	near = 4 * MostFacts
	// mostNear is how many bytes of it are read here before the bus filters the rest.
	mostNear = 8 * MostBytes

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
		return nil, fault.Refusef(fault.Invalid, code.Invalid,
			"a part of %d facts; %d are the most", q.GetLimit(), MostFacts)
	}
	leave, err := r.gate.enter(by.Actor)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	answer, read, err := r.part(ctx, q, filter)
	leave(max(proto.Size(answer), read))
	return answer, err
}

// part reads one part of the ledger and where the ledger ends. It returns how many bytes it read, also with an error.
func (r *reader) part(
	ctx context.Context, q *registryv1.ReadFactsRequest, filter string,
) (answer *registryv1.ReadFactsResponse, read int, err error) {
	answer = &registryv1.ReadFactsResponse{}
	from := q.GetFrom()
	if q.GetSince() != nil {
		first, found, err := r.since(ctx, q.GetSince().AsTime())
		if err != nil {
			return nil, 0, err
		}
		if !found {
			answer.End = first - 1
			return answer, 0, nil
		}
		from = max(from, first)
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = usualFacts
	}
	read, err = r.find(ctx, answer, bus.Part{Filter: filter, From: from, Count: limit}, q.GetBelow())
	if err != nil {
		return nil, read, err
	}
	last, err := r.conn.DirectGetLast(ctx, topology.Ledger, everything)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, read, err
	}
	answer.End = last.Sequence
	return answer, read, nil
}

// find adds facts to an answer, and where the next part begins. It returns how many bytes it read.
func (r *reader) find(
	ctx context.Context, answer *registryv1.ReadFactsResponse, p bus.Part, below uint64,
) (read int, err error) {
	p.Bytes = MostBytes
	if p.Filter != everything && below > p.From && below-p.From <= near {
		return r.findNear(ctx, answer, p, below)
	}
	stored, more, err := r.conn.DirectGetPart(ctx, topology.Ledger, p)
	if err != nil {
		return 0, err
	}
	fill(answer, stored, below, more)
	return sizeOf(stored), nil
}

// findNear is find in a short range: it reads all of it, a part at a time, and picks what the filter means, until the
// answer is full or the range ends. Behind many bytes, where facts are large, the bus picks the rest. As from the bus,
// an answer that names a next part is full: a client that asks for the last fact again, and one behind it, gets on.
func (r *reader) findNear(
	ctx context.Context, answer *registryv1.ReadFactsResponse, p bus.Part, below uint64,
) (read int, err error) {
	whole := p
	whole.Filter, whole.Count = everything, MostFacts
	var found []bus.Message
	unread := true
	for size := 0; unread && len(found) <= p.Count && (size <= MostBytes || len(found) < 2); {
		if read > mostNear && len(found) < p.Count {
			p.From, p.Count = whole.From, p.Count-len(found)
			stored, more, err := r.conn.DirectGetPart(ctx, topology.Ledger, p)
			fill(answer, append(found, stored...), below, more)
			return read + sizeOf(stored), err
		}
		stored, pending, err := r.conn.DirectGetPart(ctx, topology.Ledger, whole)
		if err != nil {
			return read, err
		}
		read += sizeOf(stored)
		if unread = pending && len(stored) > 0; unread {
			whole.From = stored[len(stored)-1].Sequence + 1
			unread = whole.From < below
		}
		for _, m := range stored {
			if m.Sequence < below && topology.Matches(p.Filter, m.Subject) {
				found, size = append(found, m), size+len(m.Data)
			}
		}
	}
	fill(answer, found[:min(len(found), p.Count)], below, false)
	if answer.Next == 0 { // all of them fit
		answer.Next = behind(found, p.Count, unread)
	}
	return read, nil
}

// behind returns where the part starts that follows so many of what was found; 0 at the end of the range.
func behind(found []bus.Message, count int, unread bool) uint64 {
	switch {
	case len(found) > count:
		return found[count].Sequence
	case unread && len(found) > 0: // large ones, which the answer only names
		return found[len(found)-1].Sequence + 1
	}
	return 0
}

func sizeOf(stored []bus.Message) (bytes int) {
	for _, m := range stored {
		bytes += len(m.Data)
	}
	return bytes
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
