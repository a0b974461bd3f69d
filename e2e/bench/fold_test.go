package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// records is a view of three nouns with one record for each key, as small as a real view
// can be: the figure is about the fold, not about one service's indexes.
type records struct {
	servers   *fold.Table[*serverv1.Server]
	instances *fold.Table[*instancev1.Instance]
	tasks     *fold.Table[*taskv1.Task]
}

func newRecords() *records {
	return &records{
		fold.NewTable[*serverv1.Server]("server"),
		fold.NewTable[*instancev1.Instance]("instance"),
		fold.NewTable[*taskv1.Task]("task"),
	}
}

func (r *records) Tables() []fold.Stored { return []fold.Stored{r.instances, r.servers, r.tasks} }
func (r *records) Loaded()               {}

func (r *records) Apply(f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Online:
		s := &serverv1.Server{Id: f.Key, BootId: b.BootId, Presence: serverv1.Presence_PRESENCE_ONLINE}
		r.servers.Put(f.Key, s, f.Sequence)
	case *instancev1.Wanted:
		if i, ok := r.instances.Get(f.Key); ok {
			i.Generation, i.Wanted, i.IntentId = b.Generation, b.Image, b.IntentId
			r.instances.Touch(f.Key, f.Sequence)
			return true
		}
		i := &instancev1.Instance{
			Id: b.InstanceId, Generation: b.Generation, Wanted: b.Image, IntentId: b.IntentId,
		}
		r.instances.Put(f.Key, i, f.Sequence)
	case *taskv1.Queued:
		t := &taskv1.Task{
			Id: f.Key, ServerId: b.ServerId, Agent: b.Agent, To: b.To, State: taskv1.State_STATE_QUEUED,
		}
		r.tasks.Put(f.Key, t, f.Sequence)
	case *taskv1.Succeeded:
		t, ok := r.tasks.Get(f.Key)
		if !ok {
			return false
		}
		t.State, t.Outcome = taskv1.State_STATE_SUCCEEDED, b.Outcome
		r.tasks.Touch(f.Key, f.Sequence)
	default:
		return false
	}
	return true
}

// BenchmarkFold compares the fold of a ledger with only reading it, and the start from a
// snapshot with reading the last fact of each key.
func BenchmarkFold(b *testing.B) {
	w := busOnly(b, rig.Options{})
	n := asked.scaled(1_000_000)
	appendAll(b, w.anyone(), n, func(i int) ledger.Draft { return ledger.Free(fact(i)) })
	conn := w.service(ledger.Registry)
	var folds, replays, starts, lasts []float64
	for range rounds {
		replays = append(replays, float64(n)/timed(func() { consume(b, w, jetstream.DeliverAllPolicy, n) }))
		folds = append(folds, float64(n)/timed(func() {
			_, err := fold.RebuildTo(b.Context(), conn, newRecords(), foldOptions(""), 0)
			check(b, err)
		}))
		lasts = append(lasts, timed(func() { consume(b, w, jetstream.DeliverLastPerSubjectPolicy, 0) }))
		store := filepath.Join(w.Dir, "bench")
		untilReady(b, conn, store) // the first one writes the snapshot
		starts = append(starts, timed(func() { untilReady(b, conn, store) }))
	}
	report(b, figure{
		fmt.Sprintf("fold of %d facts of three nouns, facts/s", n), spread(folds, "%.0f"),
		"raw replay: " + spread(replays, "%.0f"), ratio(median(folds), median(replays)), ">= 0.6",
	}, figure{
		"start from a snapshot of that, s", spread(starts, "%.2f"), "last per subject: " + spread(lasts, "%.2f"),
		ratio(median(lasts), median(starts)), ">= 0.4",
	})
}

func timed(do func()) (seconds float64) {
	started := time.Now()
	do()
	return time.Since(started).Seconds()
}

func foldOptions(store string) fold.Options {
	return fold.Options{Service: "bench", Store: store, Log: zerolog.Nop()}
}

// fact returns the i-th fact: of ten, one about a server, three about instances, three tasks queued and three
// succeeded. Tasks succeed after they are queued.
func fact(i int) ledger.Fact {
	group, kind := i/10, i%10
	server := uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint("server", group%20_000))).String()
	f := ledger.Fact{ID: ident.New(), At: time.Now(), Actor: "bench", Request: server, Cause: ledger.CausedByClock}
	image := &imagev1.Ref{Id: server, Version: "1.0.0", Digest: make([]byte, 32)}
	switch {
	case kind == 0:
		f.Noun, f.Key, f.Body = ledger.Server, server, &serverv1.Online{BootId: server}
	case kind <= 3:
		f.Noun, f.Key = ledger.Instance, ledger.Key(server, fmt.Sprint("agent-", kind))
		f.Body = &instancev1.Wanted{InstanceId: server, Generation: uint64(group), Image: image, IntentId: server}
	default:
		f.Noun, f.Key = ledger.Task, uuid.NewSHA1(uuid.Nil, []byte(fmt.Sprint("task", group%60_000, (kind-4)/2))).
			String()
		f.Body = &taskv1.Queued{
			Verb:       taskv1.Verb_VERB_UPGRADE,
			ServerId:   server,
			Agent:      "agent-1",
			InstanceId: server,
			Generation: uint64(group),
			To:         image,
			IntentId:   server,
		}
		if kind%2 == 1 {
			f.Body = &taskv1.Succeeded{Outcome: &taskv1.Outcome{}}
		}
	}
	f.Source = f.Noun.Writer()
	return f
}

// consume reads by an ordered consumer, and decodes nothing, until n messages came or, with n 0, until none is left.
func consume(b *testing.B, w *world, policy jetstream.DeliverPolicy, n int) {
	nc := w.raw(topology.UserProvision)
	consumer := must(must(jetstream.New(nc))(b).OrderedConsumer(b.Context(), topology.Ledger,
		jetstream.OrderedConsumerConfig{DeliverPolicy: policy}))(b)
	it := must(consumer.Messages(jetstream.PullMaxMessages(5000)))(b)
	defer it.Stop()
	for seen := 1; ; seen++ {
		m := must(it.Next())(b)
		if seen == n || n == 0 && must(m.Metadata())(b).NumPending == 0 {
			return
		}
	}
}

// untilReady follows the ledger until the view is as the ledger, and stops, which writes a snapshot.
func untilReady(b *testing.B, conn *bus.Conn, store string) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	f := fold.New(conn, newRecords(), foldOptions(store))
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-f.Ready():
	case err := <-ended:
		b.Fatal(err)
	}
	cancel()
	check(b, <-ended)
}
