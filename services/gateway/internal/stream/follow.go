// Package stream follows the ledger for callers over HTTP.
package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	gatewayv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/gateway/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// quietFor is after which time without a fact a sign of life is sent.
const quietFor = 10 * time.Second

// ahead is how many facts are read before their reader takes them.
const ahead = 16

// Follow sends the facts that a request asks for, and then new ones, until ctx ends, send fails, the ledger does not
// continue, or the actor may no longer read it. The last two are an error, a ledger that does not continue only after a
// response that says so.
func Follow(
	ctx context.Context, c *client.Client, q *gatewayv1.FollowFactsRequest,
	send func(*gatewayv1.FollowFactsResponse) error,
) error {
	query, err := queryOf(ctx, c, q)
	if err != nil {
		return err
	}
	return follow(ctx, c, query, send)
}

func follow(
	ctx context.Context, c *client.Client, query client.Query, send func(*gatewayv1.FollowFactsResponse) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	facts := make(chan found, ahead)
	go func() {
		defer close(facts)
		for e, err := range c.Follow(ctx, query) {
			select {
			case facts <- found{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return deliver(ctx, facts, query.After, send)
}

// found is a fact, or why there are no more.
type found struct {
	client.Event
	err error
}

// deliver sends facts, and signs of life between them.
func deliver(
	ctx context.Context, facts <-chan found, at client.Position, send func(*gatewayv1.FollowFactsResponse) error,
) error {
	quiet := time.NewTimer(quietFor)
	defer quiet.Stop()
	for {
		r := &gatewayv1.FollowFactsResponse{Place: placeOf(at)}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-quiet.C:
		case f := <-facts:
			if reset, ok := errors.AsType[*client.ResetError](f.err); ok {
				r.Place = placeOf(client.Position{Sequence: reset.Next - 1}) // from where reading goes on
				r.ResetTo = &gatewayv1.Reset{Reason: reset.Error(), Next: reset.Next}
				return errors.Join(send(r), f.err)
			}
			if f.err != nil || f.Stored == nil {
				return errors.Join(f.err, ctx.Err())
			}
			at = f.Position()
			r.Place, r.Fact = placeOf(at), f.Stored
		}
		if err := send(r); err != nil {
			return err
		}
		quiet.Reset(quietFor)
	}
}

// queryOf returns the query of a request.
func queryOf(ctx context.Context, c *client.Client, q *gatewayv1.FollowFactsRequest) (client.Query, error) {
	after, err := parsePlace(q.GetAfter())
	switch noun := ledger.Noun(q.GetNoun()); {
	case err != nil:
		return client.Query{}, err
	case noun != "" && !noun.Known():
		return client.Query{}, fault.Refusef(fault.Invalid, code.Invalid, "the ledger has no noun %.60q", q.GetNoun())
	case noun == "" && q.GetKey() != "":
		return client.Query{}, fault.Refusef(fault.Invalid, code.Invalid, "a key needs its noun")
	}
	query := client.Query{Noun: ledger.Noun(q.GetNoun()), Key: q.GetKey(), From: math.MaxInt64, Gaps: true}
	for _, err := range c.Events(ctx, query) { // none is there; an error says that the actor may not ask so
		if err != nil {
			return client.Query{}, err
		}
	}
	if after.Sequence == 0 && q.GetNewOnly() {
		if after.Sequence, err = c.LedgerEnd(ctx); err != nil {
			return client.Query{}, err
		}
	}
	return client.Query{Noun: query.Noun, Key: query.Key, After: after}, nil
}

// placeOf returns a place as FollowFactsResponse.place says it.
func placeOf(p client.Position) string {
	if p.ID == "" {
		return strconv.FormatUint(p.Sequence, 10)
	}
	return fmt.Sprintf("%d.%s", p.Sequence, p.ID)
}

// parsePlace reads what placeOf wrote; "" is the start of the ledger.
func parsePlace(text string) (client.Position, error) {
	if text == "" {
		return client.Position{}, nil
	}
	number, id, named := strings.Cut(text, ".")
	sequence, err := strconv.ParseUint(number, 10, 64)
	if err != nil || named && !ident.IsUUID(id) {
		return client.Position{}, fault.Refusef(fault.Invalid, code.Invalid,
			"a place in the ledger must be SEQUENCE or SEQUENCE.ID, not %.60q", text)
	}
	return client.Position{Sequence: sequence, ID: id}, nil
}
