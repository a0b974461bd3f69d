package labelrules

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/labelrule"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	// labelledAtOnce is how many servers one step looks at.
	labelledAtOnce = 100
	// labelPause is the pause between two steps, so that a rule for a large fleet leaves room for other work.
	labelPause = 20 * time.Millisecond
	// labelRetry is when servers are looked at again after a failure.
	labelRetry = time.Second
)

// Work keeps the labels of servers by rules. Of two registries, the guard of the server's key lets one record.
type Work struct {
	records *records.Records
	log     zerolog.Logger
	queue   *reconcile.Queue[string] // ids of servers
}

// NewWork returns what sets the labels that rules derive. It looks at every server first.
func NewWork(r *records.Records, log zerolog.Logger) *Work {
	w := &Work{records: r, log: log, queue: reconcile.NewQueue(r.Now, r.Servers)}
	w.queue.AddGroup(records.Everyone)
	return w
}

// NoteFacts receives the facts that were just folded.
func (w *Work) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Body.(type) {
		case *serverv1.Enrolled, *serverv1.Changed, *serverv1.SysinfoSeen:
			w.queue.Add(f.Key)
		case *labelrulev1.LabelRule, *labelrulev1.Unset:
			w.queue.AddGroup(records.Everyone)
		}
	}
}

// Run labels until ctx is done.
func (w *Work) Run(ctx context.Context) error {
	return reconcile.Loop[string]{
		Name: "labels by rules", Queue: w.queue, Pass: w.label, Most: labelledAtOnce, Pause: labelPause,
		Retry: labelRetry, Log: w.log,
	}.Run(ctx)
}

// Waits returns how many servers are to be looked at.
func (w *Work) Waits() int { return w.queue.Len() }

// label records the labels that are due on some servers, in one step. It is safe to run twice: what is recorded is no
// longer due.
func (w *Work) label(ctx context.Context, servers []string) error {
	r, changed := w.records, 0
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		var drafts []ledger.Draft
		for _, id := range servers {
			s, _ := r.View.Server(id)
			if due := labelrule.Due(r.View.LabelRules(""), s); due != nil {
				drafts = append(drafts, r.Guard(r.Own(ledger.Server, id, due, "")))
			}
		}
		changed = len(drafts)
		return drafts, nil
	})
	if err == nil && changed > 0 {
		w.log.Info().Int(logs.Count, changed).Msg("servers labelled by rules")
	}
	return err
}
