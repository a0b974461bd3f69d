// Package blocks keeps builds that failed from reaching more servers.
package blocks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	blocknoun "github.com/garrison-fleet/garrison/pkg/noun/block"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	// DefaultBlockAfter is on how many servers a build fails before the registry blocks it.
	DefaultBlockAfter = 3
	// blockShare is the least share of the servers with a build on which it must have failed: one in so many. Without
	// it, a build that works on thousands of servers would be blocked for a few whose disks are bad.
	blockShare = 5
	// mostBlocked is how many builds one look blocks; the next one takes the next ones.
	mostBlocked = 500
	// haltedBy is on how many servers a build that halted a rollout failed before it is blocked everywhere: one server
	// alone may be at fault itself, and the rollout stands still in any case.
	haltedBy = 2
	// blocksPause is the pause between two looks at what failed.
	blocksPause = 100 * time.Millisecond
	// blocksRetry is the pause after blocks could not be recorded.
	blocksRetry = time.Second
)

// Work blocks builds that failed on several servers, or that halted a rollout. The view holds where a build worked when
// it failed, so the decision is the same whenever it is made. The guard of the block's key lets one of several
// registries win.
type Work struct {
	records *records.Records
	most    int // 0 means never
	log     zerolog.Logger
	queue   *reconcile.Queue[reconcile.Once]
	full    bool // it was logged that there are too many blocks
}

// NewWork returns what blocks builds that failed on most servers; 0 means never.
func NewWork(r *records.Records, most int, log zerolog.Logger) *Work {
	w := &Work{records: r, most: most, log: log, queue: reconcile.NewQueue[reconcile.Once](r.Now, nil)}
	w.queue.Add(reconcile.Once{})
	return w
}

// NoteFacts receives the facts that were just folded.
func (w *Work) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Noun {
		case ledger.Task, ledger.Instance, ledger.Rollout, ledger.Block, ledger.Image:
			w.queue.Add(reconcile.Once{})
			return
		}
	}
}

// Run blocks builds that fail, and lifts these blocks once their images are deleted, until ctx is done.
func (w *Work) Run(ctx context.Context) error {
	return reconcile.Loop[reconcile.Once]{
		Name: "blocks", Queue: w.queue, Pause: blocksPause, Retry: blocksRetry, Log: w.log,
		Pass: func(ctx context.Context, _ []reconcile.Once) error { return w.Decide(ctx) },
	}.Run(ctx)
}

// Decide records the blocks that are due. It is safe to run twice: the id of the fact follows from what it rests on.
func (w *Work) Decide(ctx context.Context) error {
	due := map[string]*blockv1.Block{}
	_, err := w.records.Decider.Do(ctx, func() (drafts []ledger.Draft, err error) {
		clear(due) // it is taken again when another registry recorded first
		drafts = w.lifts()
		for id, s := range w.records.View.Suspects() {
			if len(drafts) >= mostBlocked {
				w.queue.Add(reconcile.Once{})
				break
			}
			body := w.Due(s)
			if w.most == 0 || body == nil || !w.room(len(due)) {
				continue
			}
			due[id] = body
			f := w.records.Own(ledger.Block, id, body, "")
			f.ID = ident.From("block", id, strconv.FormatUint(w.records.View.Sequence(ledger.Block, id), 10))
			drafts = append(drafts, w.records.Guard(f))
		}
		return drafts, nil
	})
	if err != nil {
		return err
	}
	for id, body := range due {
		w.log.Warn().Str("block", ident.Short(id)).Str(logs.Agent, body.Build.GetAgent()).Str(logs.Reason, body.Reason).
			Msg("build blocked")
	}
	return nil
}

// lifts returns the facts that lift the blocks of deleted images that failed. What a person blocked stays: the same
// image may be imported again. It must run inside Read.
func (w *Work) lifts() (drafts []ledger.Draft) {
	for id, b := range w.records.View.Blocks("") {
		ref := b.GetBuild().GetImage()
		if _, ok := w.records.View.Image(ref.GetId()); ref == nil || ok || b.GetFailed() == 0 {
			continue
		}
		f := w.records.Own(ledger.Block, id, &blockv1.Lifted{}, "")
		f.ID = ident.From("block", id, strconv.FormatUint(w.records.View.Sequence(ledger.Block, id), 10))
		if drafts = append(drafts, w.records.Guard(f)); len(drafts) == mostBlocked {
			w.queue.Add(reconcile.Once{})
			break
		}
	}
	return drafts
}

// room reports whether one more build may be blocked beside so many.
func (w *Work) room(more int) bool {
	if w.records.View.BlockCount()+more < MostBlocks {
		w.full = false
		return true
	}
	if !w.full {
		w.log.Warn().Int(logs.Count, MostBlocks).Msg("too many blocks; builds that fail are not blocked")
	}
	w.full = true
	return false
}

// Due returns the fact that blocks a suspect, or nil while it is not due.
func (w *Work) Due(s *blockv1.Suspect) *blockv1.Block {
	failed := len(s.ServerIds)
	set := &blockv1.Block{
		Build: s.Build, RolloutId: s.RolloutId,
		ServerIds: slices.Clone(s.ServerIds[:min(failed, blocknoun.Named)]), // the fold changes the suspect in place
	}
	if s.RolloutId != "" && failed >= min(haltedBy, w.most) {
		set.Failed = uint32(failed)
		set.Reason = fmt.Sprintf("it failed on %s and halted rollout %s", servers(failed), s.RolloutId)
		return set
	}
	if failed == view.MostFailed {
		failed = max(failed, int(s.Failing)) // it names no more
	}
	if failed < w.most || failed*blockShare < failed+int(s.Working) {
		return nil
	}
	set.Failed = uint32(failed)
	set.Reason = failedReason(failed, s.Working)
	return set
}

func failedReason(failed int, working uint32) string {
	return fmt.Sprintf("it failed on %s and works on %d", servers(failed), working)
}

func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}
