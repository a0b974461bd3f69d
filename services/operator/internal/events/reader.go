package events

import (
	"context"
	"slices"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// factsAtOnce is the number of facts that are printed at a time.
const factsAtOnce = 500

// reader reads matching facts in the order of the ledger.
type reader struct {
	client *client.Client
	flags  eventFlags
	ids    []string        // only facts with one of these; none means all
	again  bool            // the ledger was set back, and is read from its start
	tasks  map[string]bool // the tasks on a server among ids, as they were found
	// derived is the intents that rollouts among ids led to; nil until they were looked for.
	derived map[string]bool
}

// fits reports whether a fact is to be printed. Facts about tasks on a server must be passed in their order.
func (r *reader) fits(e client.Event) bool {
	f := r.flags
	if !(client.Filter{Nouns: f.nouns, Actor: f.actor}).Fits(e) || !f.until.IsZero() && !e.At.Before(f.until) {
		return false
	}
	found := client.Filter{IDs: r.ids}.Fits(e) || r.ofRollout(e) || r.onServer(e)
	return found && client.Filter{Facts: f.facts}.Fits(e)
}

// ofRollout reports whether a fact is about an intent that a rollout among the ids led to, or follows from one.
func (r *reader) ofRollout(e client.Event) bool {
	if r.derived != nil && fleet.IsDerived(e, r.has) {
		r.derived[e.Key] = true
	}
	return r.derived[e.Key] || r.derived[e.Request]
}

// has reports whether an id is among the ids.
func (r *reader) has(id string) bool {
	return slices.ContainsFunc(r.ids, func(given string) bool { return ident.IsPart(given, id) })
}

// derive finds the intents that rollouts among the ids led to. What an intent changes may be recorded before it.
func (r *reader) derive(ctx context.Context) error {
	if r.derived != nil || !slices.ContainsFunc(r.ids, ident.CanBePart) {
		return nil
	}
	ids, err := fleet.Derived(ctx, r.client, r.has)
	if err != nil {
		return err
	}
	r.derived = map[string]bool{}
	for _, id := range ids {
		r.derived[id] = true
	}
	return nil
}

// onServer reports whether a fact is about a task on a server among the ids: its first fact names the server.
func (r *reader) onServer(e client.Event) bool {
	if q := task.Opened(e.Body); q.GetServerId() != "" && slices.Contains(r.ids, q.GetServerId()) {
		if r.tasks == nil {
			r.tasks = map[string]bool{}
		}
		r.tasks[e.Key] = true
	}
	return e.Noun == ledger.Task && r.tasks[e.Key]
}

// ofTasks reports whether tasks on a server are looked for, whose facts must be read in their order.
func (r *reader) ofTasks() bool {
	return len(r.ids) > 0 && r.flags.noun == string(ledger.Task)
}

// taker consumes facts as they are read and reports whether it wants more.
type taker func([]event) (more bool, err error)

// query returns the query for the noun. Facts that are missing do not end a command that only prints the others.
func (r *reader) query() client.Query {
	return client.Query{Noun: ledger.Noun(r.flags.noun), Gaps: true}
}

// readAll reads the current matching facts: by key where that is complete, backwards for the last N, otherwise from the
// start.
func (r *reader) readAll(ctx context.Context, take taker) error {
	if err := r.narrow(ctx); err != nil {
		return err
	}
	if found, err := r.readKey(ctx, take); found || err != nil {
		return err
	}
	_, err := r.begin(ctx, take)
	return err
}

// narrow replaces the name of a server by its id, unless an agent ever had that name: the facts of an id are read by
// their key, and those with a name anywhere in their key only by reading the whole ledger.
func (r *reader) narrow(ctx context.Context) error {
	if len(r.ids) != 2 {
		return nil
	}
	for _, err := range r.client.Events(ctx, client.Query{Noun: ledger.Agent, Key: r.ids[0], Gaps: true}) {
		return err
	}
	r.ids = r.ids[1:]
	return nil
}

// begin reads the current matching facts and returns the query for those that follow.
func (r *reader) begin(ctx context.Context, take taker) (client.Query, error) {
	if err := r.derive(ctx); err != nil {
		return client.Query{}, err
	}
	if r.flags.follow && r.flags.last() && r.flags.limit == 0 && !r.again {
		return r.end(ctx)
	}
	if r.flags.limit > 0 && r.flags.last() && !r.ofTasks() {
		return r.readLast(ctx, take)
	}
	q := r.query()
	q.From = r.flags.from
	if !r.flags.since.IsZero() {
		first, err := r.client.SequenceAt(ctx, r.flags.since)
		if err != nil {
			return q, err
		}
		q.From = max(q.From, first)
	}
	return r.read(ctx, q, take)
}

// readKey reads the facts of one key, if --id is a whole id. Only an intent's id is also the request of facts about
// other keys, and only a rollout leads to other intents; for these, and for an id that is not a key, it reads nothing
// and reports false.
func (r *reader) readKey(ctx context.Context, take taker) (found bool, err error) {
	if len(r.ids) != 1 || !ident.IsUUID(r.ids[0]) || !r.flags.last() {
		return false, nil
	}
	q := r.query()
	q.Key = r.ids[0]
	for e, err := range r.client.Events(ctx, q) {
		if err != nil || e.Noun == ledger.Intent && (q.Noun == "" || isRollout(e)) {
			return false, err
		}
		found = true
		break
	}
	if !found && q.Noun != ledger.Intent {
		return false, nil
	}
	_, err = r.read(ctx, q, take)
	return true, err
}

// isRollout reports whether a fact is about an intent that is a rollout.
func isRollout(e client.Event) bool {
	b, _ := e.Body.(interface{ GetIntent() *intentv1.Intent })
	return b != nil && b.GetIntent().GetRollout() != nil
}

// end returns the query for the facts behind the last one.
func (r *reader) end(ctx context.Context) (client.Query, error) {
	after := r.query()
	newest, err := r.client.LastEvents(ctx, 1, client.Query{Gaps: true}, nil)
	if err == nil && len(newest) > 0 {
		after.After = newest[0].Position()
	}
	return after, err
}

// readLast reads backwards until enough facts match, and returns the query for those that follow.
func (r *reader) readLast(ctx context.Context, take taker) (client.Query, error) {
	q := r.query()
	after, err := r.end(ctx)
	if err != nil || after.After.Sequence == 0 {
		return after, err
	}
	q.Below = after.After.Sequence + 1
	found, err := r.client.LastEvents(ctx, int(r.flags.limit), q, r.fits)
	if err != nil {
		return after, err
	}
	var events []event
	for _, e := range found {
		events = append(events, eventOf(e))
	}
	_, err = take(events)
	return after, err
}

// read reads the current facts of a query and returns the query for those that follow.
func (r *reader) read(ctx context.Context, q client.Query, take taker) (after client.Query, err error) {
	var waiting []event
	after = q
	for e, err := range r.client.Events(ctx, q) {
		if err != nil {
			return after, err
		}
		after.After = e.Position()
		if r.fits(e) {
			waiting = append(waiting, eventOf(e))
		}
		if len(waiting) == factsAtOnce {
			if more, err := take(waiting); err != nil || !more {
				return after, err
			}
			waiting = nil
		}
	}
	_, err = take(waiting)
	return after, err
}
