// Package table answers requests about the records that operators keep, whatever their noun: it puts, deletes and lists
// them. A noun says what differs.
package table

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/record"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Noun is how the records of one noun are kept. All but Check and Outdated run inside Read.
type Noun[T interface {
	comparable
	proto.Message
}] struct {
	Name ledger.Noun
	Show string // the command that shows the record NAME
	// OfAgent and OnServers report that its records are selected also by an agent, and by servers.
	OfAgent, OnServers bool

	Get     func(key string) (T, bool)
	Unknown func(key string) error       // refuses a key that no record has
	Check   func(next T) error           // refuses fields that are wrong whatever the view holds
	Key     func(next T) (string, error) // completes a record and returns its key; nil is its name
	Put     func(Put[T]) ([]ledger.Draft, error)
	// Outdated returns the instances that a configure would change after a change; nil for a noun that configures none.
	Outdated func(changed T) []*registryv1.Outdated
	// Ended returns the records that a request deletes, or refuses it.
	Ended func(bus.Caller, *registryv1.DeleteRecordRequest) ([]T, error)
	End   proto.Message // the fact of a record that ends
	// Rows returns copies for an answer.
	Rows func(after string, q *registryv1.ListRecordsRequest) (iter.Seq2[string, T], error)
	Row  func(T) T // a copy for the answer to a request that puts or deletes it
}

// Put is a record that a caller puts.
type Put[T any] struct {
	Caller     bus.Caller
	Key        string
	Have, Next T // Have is nil for a new record
}

// Kept is the records of a noun.
type Kept interface {
	noun() ledger.Noun
	put(context.Context, *API, bus.Caller, *registryv1.PutRecordRequest) (*registryv1.PutRecordResponse, error)
	list(context.Context, *API, *registryv1.ListRecordsRequest) (*registryv1.ListRecordsResponse, error)
	end(
		context.Context, *API, bus.Caller, *registryv1.DeleteRecordRequest,
	) (*registryv1.DeleteRecordResponse, error)
}

// API answers requests about records.
type API struct {
	records *records.Records
	log     zerolog.Logger
	nouns   map[ledger.Noun]Kept
}

// New returns what answers requests about the records of some nouns.
func New(r *records.Records, log zerolog.Logger, nouns ...Kept) *API {
	a := &API{records: r, log: log, nouns: map[ledger.Noun]Kept{}}
	for _, n := range nouns {
		a.nouns[n.noun()] = n
	}
	return a
}

// Serve registers the methods.
func (a *API) Serve(s *bus.Service) error {
	return errors.Join(
		bus.Handle(s, "PutRecord", a.Put),
		bus.Handle(s, "DeleteRecord", a.Delete),
		bus.Handle(s, "ListRecords", a.List),
	)
}

// Put creates or changes a record. It is safe to run twice: a record that is as requested already writes nothing.
func (a *API) Put(
	ctx context.Context, c bus.Caller, q *registryv1.PutRecordRequest,
) (*registryv1.PutRecordResponse, error) {
	n, err := a.kept(string(record.NounOf(record.Body(q.GetRecord()))))
	if err != nil {
		return nil, err
	}
	return n.put(ctx, a, c, q)
}

// Delete deletes a record.
func (a *API) Delete(
	ctx context.Context, c bus.Caller, q *registryv1.DeleteRecordRequest,
) (*registryv1.DeleteRecordResponse, error) {
	n, err := a.kept(q.GetNoun())
	if err != nil {
		return nil, err
	}
	return n.end(ctx, a, c, q)
}

// List returns the records of a noun, a page at a time.
func (a *API) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListRecordsRequest,
) (*registryv1.ListRecordsResponse, error) {
	n, err := a.kept(q.GetNoun())
	if err != nil {
		return nil, err
	}
	return n.list(ctx, a, q)
}

func (a *API) kept(noun string) (Kept, error) {
	if n, ok := a.nouns[ledger.Noun(noun)]; ok {
		return n, nil
	}
	return nil, request.Invalid(code.Malformed, "operators keep no records of the noun %.60q", noun)
}

func (n *Noun[T]) noun() ledger.Noun { return n.Name }

func (n *Noun[T]) put(
	ctx context.Context, a *API, c bus.Caller, q *registryv1.PutRecordRequest,
) (*registryv1.PutRecordResponse, error) {
	if n.Check == nil {
		return nil, request.Invalid(code.Malformed, "records of the noun %s are not put", n.Name)
	}
	p := Put[T]{Caller: c, Next: record.As[T](q.Record)}
	if err := n.Check(p.Next); err != nil {
		return nil, err
	}
	checked := &registryv1.PutRecordResponse{}
	err := a.records.Change(ctx, func() (drafts []ledger.Draft, err error) {
		if p.Key, err = n.key(p.Next); err != nil {
			return nil, err
		}
		exists := false
		switch p.Have, exists = n.Get(p.Key); {
		case exists && q.Expect == registryv1.Expect_EXPECT_ABSENT:
			return nil, request.AlreadyExists(string(n.Name), p.Key, strings.ReplaceAll(n.Show, "NAME", p.Key))
		case !exists && q.Expect == registryv1.Expect_EXPECT_PRESENT:
			return nil, n.Unknown(p.Key)
		}
		if drafts, err = n.Put(p); err == nil && bus.IsDryRun(ctx) {
			checked.Record = record.Of(n.Row(p.Next))
		}
		return drafts, err
	})
	if errors.Is(err, bus.ErrDryRun) {
		return checked, err
	}
	if err != nil {
		return nil, err
	}
	a.log.Info().Str("noun", string(n.Name)).Str("key", p.Key).Str(logs.Actor, c.Actor).Msg("record put")
	return n.answer(ctx, a, p.Key)
}

func (n *Noun[T]) key(next T) (string, error) {
	if n.Key == nil {
		return keyOf(next), nil
	}
	return n.Key(next)
}

// answer returns a record as recorded.
func (n *Noun[T]) answer(ctx context.Context, a *API, key string) (*registryv1.PutRecordResponse, error) {
	var row T
	err := a.records.Decider.Query(ctx, func() error {
		have, exists := n.Get(key)
		if !exists { // deleted since
			return n.Unknown(key)
		}
		row = n.Row(have)
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.PutRecordResponse{Record: record.Of(row)}
	if n.Outdated != nil {
		resp.Outdated = n.Outdated(row)
	}
	return resp, nil
}

func (n *Noun[T]) end(
	ctx context.Context, a *API, c bus.Caller, q *registryv1.DeleteRecordRequest,
) (*registryv1.DeleteRecordResponse, error) {
	if err := n.checkFilter(q.Agent, q.On); err != nil {
		return nil, err
	}
	resp := &registryv1.DeleteRecordResponse{}
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		if n.gone(resp.Records) {
			return nil, nil // another replica recorded it
		}
		ended, err := n.Ended(c, q)
		if err != nil {
			return nil, err
		}
		resp.Records = nil
		var drafts []ledger.Draft
		for _, have := range ended {
			resp.Records = append(resp.Records, record.Of(n.Row(have)))
			drafts = append(drafts, a.records.ByCaller(c, n.Name, keyOf(have), n.End))
		}
		return drafts, nil
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str("noun", string(n.Name)).Str("key", q.Key).Int(logs.Count, len(resp.Records)).
		Str(logs.Actor, c.Actor).Msg("records deleted")
	return resp, nil
}

// gone reports whether there were records, and none of them exists.
func (n *Noun[T]) gone(were []*registryv1.Record) bool {
	for _, r := range were {
		if _, ok := n.Get(keyOf(record.As[T](r))); ok {
			return false
		}
	}
	return len(were) > 0
}

func (n *Noun[T]) list(
	ctx context.Context, a *API, q *registryv1.ListRecordsRequest,
) (*registryv1.ListRecordsResponse, error) {
	if err := n.checkFilter(q.Agent, q.On); err != nil {
		return nil, err
	}
	part, err := records.List(ctx, a.records, q.Page, func(after string) (iter.Seq2[string, T], error) {
		return n.Rows(after, q)
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListRecordsResponse{Noun: string(n.Name), NextCursor: part.Next, LeftOut: part.LeftOut}
	var none T
	list := resp.ProtoReflect().Mutable(record.FieldOf(resp, none)).List()
	for _, row := range part.Rows {
		list.Append(protoreflect.ValueOfMessage(row.ProtoReflect()))
	}
	return resp, nil
}

// checkFilter refuses an agent and servers by which the records of the noun are not selected.
func (n *Noun[T]) checkFilter(agent string, on *intentv1.Selector) error {
	if agent != "" && !n.OfAgent || on != nil && !n.OnServers {
		return request.Invalid(code.Invalid, "records of the noun %s are not selected so", n.Name)
	}
	return nil
}

// keyOf returns the id of a record, or else its name.
func keyOf(body proto.Message) string {
	if r, ok := body.(interface{ GetId() string }); ok {
		return r.GetId()
	}
	return body.(interface{ GetName() string }).GetName()
}
