// Package blocks keeps builds that failed from reaching more servers.
package blocks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	blocknoun "github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

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
)

// Work blocks builds that failed on several servers, or that halted a rollout. Each failure is judged once, against the
// servers that have the build by then: what has it later says nothing about the failure, because servers move on. Of a
// failure from before this process began it is unknown which servers had the build, so each server with the agent
// counts as one on which it works. The guard of the block's key lets one of several registries win.
type Work struct {
	records *records.Records
	most    int // 0 means never
	log     zerolog.Logger
	wake    wakeup.Signal
	began   bool
	from    uint64             // the position of the view when this process began
	judged  map[string]verdict // of each suspect's last failure
	full    bool               // it was logged that there are too many blocks
}

// verdict is what followed from a failure.
type verdict struct {
	failure uint64       // its sequence
	block   *blockv1.Set // what is due, until it is recorded; nil for nothing
}

// NewWork returns what blocks builds that failed on most servers; 0 means never.
func NewWork(r *records.Records, most int, log zerolog.Logger) *Work {
	return &Work{records: r, most: most, log: log, wake: wakeup.New()}
}

// NoteFacts receives the facts that were just folded.
func (w *Work) NoteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Noun {
		case ledger.Task, ledger.Instance, ledger.Rollout, ledger.Block:
			w.wake.Wake()
			return
		}
	}
}

// Run blocks builds until ctx is done.
func (w *Work) Run(ctx context.Context) error {
	if w.most == 0 {
		<-ctx.Done()
		return nil
	}
	w.begin()
	for records.Sleep(ctx, blocksPause) {
		w.Decide(ctx)
		select {
		case <-w.wake.C():
		case <-ctx.Done():
		}
	}
	return nil
}

// begin notes which failures are older than this process.
func (w *Work) begin() {
	if !w.began {
		w.began, w.from = true, w.records.Follower.Position()
	}
}

// Decide records the blocks that are due. It is safe to run twice: the id of the fact follows from what it rests on.
func (w *Work) Decide(ctx context.Context) {
	w.begin()
	due, judged := map[string]*blockv1.Set{}, w.judged
	_, err := w.records.Decider.Do(ctx, func() (drafts []ledger.Draft, err error) {
		clear(due) // it is taken again when another registry recorded first
		judged = map[string]verdict{}
		for id, s := range w.records.View.Suspects() {
			if len(drafts) == mostBlocked {
				w.wake.Wake()
				if v, ok := w.judged[id]; ok {
					judged[id] = v
				}
				continue
			}
			body := w.Due(id, s)
			if judged[id] = (verdict{w.records.View.LastFailure(id), body}); body == nil || !w.room(len(due)) {
				continue
			}
			due[id] = body
			f := w.records.Own(ledger.Block, id, body, "")
			f.ID = ident.From("block", id, strconv.FormatUint(w.records.View.Sequence(ledger.Block, id), 10))
			drafts = append(drafts, w.records.Guard(f))
		}
		return drafts, nil
	})
	if w.judged = judged; err != nil { // what is due is recorded with the next fact
		if ctx.Err() == nil {
			w.log.Warn().Err(err).Msg("blocks put off")
		}
		return
	}
	for id, body := range due {
		w.log.Warn().Str("block", ident.Short(id)).Str(logs.Agent, body.Build.GetAgent()).Str(logs.Reason, body.Reason).
			Msg("build blocked")
	}
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

// Due returns the fact that blocks a suspect, or nil while it is not due. It must run inside Read.
func (w *Work) Due(id string, s *blockv1.Suspect) *blockv1.Set {
	failed := len(s.ServerIds)
	set := &blockv1.Set{
		Build: s.Build, Failed: uint32(failed), RolloutId: s.RolloutId,
		ServerIds: slices.Clone(s.ServerIds[:min(failed, blocknoun.Named)]), // the fold changes the suspect in place
	}
	switch {
	case s.RolloutId != "" && failed >= min(haltedBy, w.most):
		set.Reason = fmt.Sprintf("it failed on %s and halted rollout %s", servers(failed), s.RolloutId)
		return set
	case failed < w.most:
		return nil
	}
	last := w.records.View.LastFailure(id)
	if v, ok := w.judged[id]; ok && v.failure == last {
		return v.block
	}
	failing, working := w.count(s.Build)
	others := "works on"
	if last <= w.from {
		others, working = "was not seen to fail on", w.others(s)
	}
	if failed == view.MostFailed {
		failed = max(failed, failing) // it names no more
	}
	if failed*blockShare < failed+working {
		return nil
	}
	set.Failed = uint32(failed)
	set.Reason = fmt.Sprintf("it failed on %s and %s %d", servers(failed), others, working)
	return set
}

func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

// count returns on how many servers a build failed and was not replaced since, and on how many it runs and is healthy.
// It must run inside Read.
func (w *Work) count(b *blockv1.Build) (failing, working int) {
	for i := range w.records.View.InstancesOfAgent(b.GetAgent()) {
		switch {
		case i.State == instancev1.State_STATE_FAILED && code.EndsByBuild(i.TaskCode) &&
			w.is(i, b, i.Wanted, i.Configuration.GetDigest()):
			failing++
		case !w.is(i, b, i.Observed, i.ObservedConfigurationDigest):
		case i.Health == instancev1.Health_HEALTH_GOOD:
			working++
		case i.Health == instancev1.Health_HEALTH_BAD && code.OfBuild(i.ObservedCode):
			failing++
		}
	}
	return failing, working
}

// others returns how many servers have the agent of a suspect, without those on which it failed. It must run inside
// Read.
func (w *Work) others(s *blockv1.Suspect) (n int) {
	for i := range w.records.View.InstancesOfAgent(s.Build.GetAgent()) {
		if _, failed := slices.BinarySearch(s.ServerIds, i.ServerId); !failed {
			n++
		}
	}
	return n
}

// is reports whether an image and a configuration of an instance are a build, or have it.
func (w *Work) is(i *instancev1.Instance, b *blockv1.Build, ref *imagev1.Ref, digest []byte) bool {
	if len(b.ConfigurationDigest) > 0 && !bytes.Equal(digest, b.ConfigurationDigest) {
		return false
	}
	if b.Image == nil {
		return true
	}
	if ref == nil || !instance.SameImage(ref, b.Image) {
		return false
	}
	server, _ := w.records.View.Server(i.ServerId)
	return blocknoun.OfImage(b.Agent, ref, server.GetSysinfo().GetPlatform()).Platform == b.Platform
}
