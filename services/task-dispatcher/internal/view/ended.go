package view

import (
	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
)

// endedTasks keeps the last tasks that ended, so that the view stays bounded. Successful tasks and the
// others have a bound each: however many succeed, the failures stay readable.
type endedTasks struct {
	tasks     *fold.Table[*dispatcherv1.TaskRecord]
	keep      int
	succeeded btree.Map[uint64, string] // task ids, by ended sequence
	otherwise btree.Map[uint64, string]
}

func (e *endedTasks) add(id string, r *dispatcherv1.TaskRecord) {
	if r.Task.State == taskv1.State_STATE_SUCCEEDED {
		e.succeeded.Set(r.EndedSequence, id)
	} else {
		e.otherwise.Set(r.EndedSequence, id)
	}
}

func (e *endedTasks) len() int { return e.succeeded.Len() + e.otherwise.Len() }

// full reports whether ended tasks may have been forgotten.
func (e *endedTasks) full() bool { return max(e.succeeded.Len(), e.otherwise.Len()) >= e.keep }

// trim forgets the tasks that ended first, and returns them.
func (e *endedTasks) trim() map[string]*dispatcherv1.TaskRecord {
	var forgotten map[string]*dispatcherv1.TaskRecord
	for _, ended := range []*btree.Map[uint64, string]{&e.succeeded, &e.otherwise} {
		for ended.Len() > e.keep {
			_, id, _ := ended.PopMin()
			if r, ok := e.tasks.Get(id); ok {
				if forgotten == nil {
					forgotten = map[string]*dispatcherv1.TaskRecord{}
				}
				forgotten[id] = r
				e.tasks.Forget(id)
			}
		}
	}
	return forgotten
}
