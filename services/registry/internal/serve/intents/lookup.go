package intents

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	intentnoun "github.com/garrison-fleet/garrison/pkg/noun/intent"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// Lookup finds decided intents: recent ones in the view, all of them in the ledger.
type Lookup struct {
	records *records.Records
	conn    *bus.Conn
}

// NewLookup returns a Lookup of intents. The view keeps the last ones.
func NewLookup(r *records.Records, conn *bus.Conn) *Lookup {
	return &Lookup{records: r, conn: conn}
}

// Recent returns an intent's record from the view, or nil.
func (l *Lookup) Recent(id string) *intentv1.Record {
	var out *intentv1.Record
	l.records.Follower.Read(func() {
		if found, ok := l.records.View.Intent(id); ok {
			out = proto.CloneOf(found)
		}
	})
	return out
}

// Past returns an intent's record from the ledger, and waits until the view holds what the intent
// changed. An error is NotFound when the intent is not in the ledger.
func (l *Lookup) Past(ctx context.Context, id string) (*intentv1.Record, error) {
	return l.held(ctx, id, l.decision)
}

// held returns what read finds, as soon as the view holds it too.
func (l *Lookup) held(
	ctx context.Context, id string, read func(context.Context, string) (recorded, error),
) (*intentv1.Record, error) {
	found, err := read(ctx, id)
	if err != nil {
		return nil, err
	}
	return found.record, l.records.Follower.Wait(ctx, found.sequence)
}

// waiting returns how many published intents wait for a decision.
func (l *Lookup) waiting(ctx context.Context) (uint64, error) {
	return l.conn.Unsettled(ctx, topology.RegistryIntents)
}

// decided reports whether the ledger holds a decision of the intent.
func (l *Lookup) decided(ctx context.Context, id string) (bool, error) {
	_, err := l.Past(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// Undone returns the intent that an undo names, of an intent or in waves; nil when i is not an undo, or names an
// unknown intent.
func (l *Lookup) Undone(ctx context.Context, i *intentv1.Intent) (*intentv1.Record, error) {
	id := cmp.Or(i.GetUndo().GetIntentId(), i.GetRollout().GetUndoOf())
	if !ident.IsUUID(id) {
		return nil, nil
	}
	if recent := l.Recent(id); recent != nil {
		return recent, nil
	}
	past, err := l.Past(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return past, err
}

// recorded is the record of an intent as the ledger has it.
type recorded struct {
	record   *intentv1.Record
	sequence uint64 // of the last fact about it
}

// decision reads an intent's record from the ledger. An error is NotFound when the ledger does not hold it: a replica
// may lag behind, so that what one does not have is looked for in what the leader has now.
func (l *Lookup) decision(ctx context.Context, id string) (recorded, error) {
	d, err := l.anywhere(ctx, id)
	if !fault.Is(err, fault.NotFound) {
		return d, err
	}
	end, err := l.conn.Stream(ctx, topology.Ledger)
	if err != nil {
		return recorded{}, err
	}
	return l.reaching(ctx, id, max(end.LastSequence, l.records.Follower.Position())) // a new leader may be behind
}

// anywhere is decision without the leader: an intent that is not found may be too recent for the replica that answers.
func (l *Lookup) anywhere(ctx context.Context, id string) (recorded, error) {
	return l.reaching(ctx, id, 0)
}

// reaching reads an intent's facts from a replica that holds at least the sequence floor.
func (l *Lookup) reaching(ctx context.Context, id string, floor uint64) (recorded, error) {
	var subjects []string
	for _, body := range []proto.Message{&intentv1.Accepted{}, &intentv1.Refused{}, &intentv1.Withdrawn{}} {
		subjects = append(subjects, ledger.Fact{Noun: ledger.Intent, Key: id, Body: body}.Subject())
	}
	found, err := l.conn.DirectGetFresh(ctx, topology.Ledger, floor, subjects...)
	if err != nil {
		return recorded{}, err
	}
	var d recorded
	for _, m := range found {
		f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
		if f.Body == nil { // what is known of a newer version's fact is enough
			return recorded{}, fault.New(fault.Internal, "read intent %s: %w", id, err)
		}
		if after, fit := intentnoun.Apply(d.record, f); fit {
			d = recorded{after, f.Sequence}
		}
	}
	if d.record == nil {
		return recorded{}, fault.New(fault.NotFound, "intent %s is not in the ledger", id)
	}
	return d, nil
}
