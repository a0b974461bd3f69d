package labelrules

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/labelrule"
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

// Work keeps the labels of servers by rules. It decides on the view rather than on facts, so a restart loses
// nothing: facts only say which servers to look at. Its set is bounded by the fleet. Of two registries, the guard of
// the server's key lets one record.
type Work struct {
	records *records.Records
	log     zerolog.Logger
	wake    wakeup.Signal

	mu   sync.Mutex
	next map[string]bool // ids of servers to look at
	all  bool            // every server is to be looked at
}

// NewWork returns what sets the labels that rules derive.
func NewWork(r *records.Records, log zerolog.Logger) *Work {
	return &Work{records: r, log: log, wake: wakeup.New(), next: map[string]bool{}, all: true}
}

// NoteFacts receives the facts that were just folded.
func (w *Work) NoteFacts(facts []ledger.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range facts {
		switch f.Body.(type) {
		case *serverv1.Enrolled, *serverv1.Changed, *serverv1.SysinfoSeen:
			w.next[f.Key] = true
		case *labelrulev1.Set, *labelrulev1.Unset:
			w.all = true
		}
	}
	if w.all || len(w.next) > 0 {
		w.wake.Wake()
	}
}

// Run labels until ctx is done.
func (w *Work) Run(ctx context.Context) error {
	for {
		for servers := w.take(); len(servers) > 0; servers = w.take() {
			pause := labelPause
			if err := w.label(ctx, servers); err != nil && ctx.Err() == nil {
				w.log.Warn().Err(err).Int(logs.Count, len(servers)).Msg("labels by rules put off")
				w.again(servers)
				pause = labelRetry
			}
			if !records.Sleep(ctx, pause) {
				return nil
			}
		}
		select {
		case <-w.wake.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns the servers to look at next, at most labelledAtOnce.
func (w *Work) take() (out []string) {
	w.mu.Lock()
	all := w.all
	w.all = false
	w.mu.Unlock()
	var everyone []string
	if all {
		w.records.Follower.Read(func() {
			for s := range w.records.View.AllServers() {
				everyone = append(everyone, s.Id)
			}
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range everyone {
		w.next[id] = true
	}
	for id := range w.next {
		if len(out) == labelledAtOnce {
			break
		}
		out = append(out, id)
		delete(w.next, id)
	}
	return out
}

// again has servers looked at once more.
func (w *Work) again(servers []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range servers {
		w.next[id] = true
	}
}

// Waits returns how many servers are to be looked at.
func (w *Work) Waits() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.next)
}

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
