package operator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

// progressKept bounds how many tasks' progress is kept; more than a line can show.
const progressKept = 256

// slowTimes is how many times the median a task must take to be named as slow.
const slowTimes = 3

// progress is what servers say live. It may be lost; the line shows it while it is there.
type progress struct {
	mu   sync.Mutex
	last map[string]*taskv1.Progress
}

func (p *progress) hear(m bus.Message) {
	said := &taskv1.Progress{}
	if bus.Unmarshal(m, said) != nil {
		return // live words are a help; one that cannot be read is none
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || len(p.last) >= progressKept {
		p.last = map[string]*taskv1.Progress{}
	}
	p.last[said.GetTaskId()] = said
}

func (p *progress) of(id string) *taskv1.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[id]
}

// show moves the line: a bar, counts by state, one step that is under way, and who is slow.
func (v *watcher) show(away error) {
	if !v.line.on {
		return
	}
	if away != nil {
		v.line.set("the service does not answer; trying again (%v)", away)
		return
	}
	all := 0
	for _, o := range v.orders {
		all += int(o.record.GetChanged())
	}
	all = max(all, len(v.tasks))
	n := tally(v.tasks)
	parts := []string{fmt.Sprintf("%s %d/%d", bar(uint64(n.succeeded+n.failed), uint64(all)), n.succeeded+n.failed, all)}
	parts = append(parts, stateCounts(v.tasks)...)
	parts = append(parts, v.step(), v.estimate(n, all), v.slow())
	v.line.set("%s", strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  "))
}

func stateCounts(tasks []task) []string {
	byState := map[taskv1.State]int{}
	for _, t := range tasks {
		byState[t.GetState()]++
	}
	var out []string
	for state := taskv1.State_STATE_QUEUED; state <= taskv1.State_STATE_SUPERSEDED; state++ {
		if n := byState[state]; n > 0 && state != taskv1.State_STATE_SUCCEEDED {
			out = append(out, fmt.Sprintf("%d %s", n, word(state)))
		}
	}
	return out
}

// step names the step of one task that is under way.
func (v *watcher) step() string {
	for _, t := range v.tasks {
		if hasEnded(t) {
			continue
		}
		if p := v.progress.of(t.GetId()); p != nil {
			text := v.name(t) + " " + word(p.GetStep())
			if p.GetTotalBytes() > 0 {
				text += fmt.Sprintf(" %d%%", 100*p.GetDoneBytes()/p.GetTotalBytes())
			}
			return text
		}
	}
	return ""
}

// estimate says when it ends at the rate so far.
func (v *watcher) estimate(n counts, all int) string {
	done := n.succeeded + n.failed
	took := v.s.now().Sub(v.started)
	if done == 0 || done >= all || took < 2*time.Second {
		return ""
	}
	return "about " + span(took*time.Duration(all-done)/time.Duration(done)) + " left"
}

// slow names the servers that take more than slowTimes the median of those that are done.
func (v *watcher) slow() string {
	var took []time.Duration
	for _, t := range v.tasks {
		if hasEnded(t) {
			took = append(took, t.GetSince().AsTime().Sub(t.GetQueuedAt().AsTime()))
		}
	}
	if len(took) < 3 {
		return ""
	}
	slices.Sort(took)
	limit := slowTimes * took[len(took)/2]
	var names []string
	for _, t := range v.tasks {
		if t.GetState() == taskv1.State_STATE_RUNNING && v.s.now().Sub(t.GetQueuedAt().AsTime()) > limit {
			names = append(names, v.name(t))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "slow: " + strings.Join(names[:min(len(names), 3)], ", ")
}
