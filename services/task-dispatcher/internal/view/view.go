package view

import (
	"github.com/tidwall/btree"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Layout is the version of the tables; a snapshot of another one is not read.
const Layout = 6

// KeepEnded is how many tasks that succeeded stay in the view, and how many that ended otherwise.
const KeepEnded = 10_000

// Nouns are the nouns that the view hears.
var Nouns = []ledger.Noun{ledger.Agent, ledger.Server, ledger.Instance, ledger.Intent, ledger.Image, ledger.Task}

// View is the dispatcher's view.
type View struct {
	tasks     *fold.Table[*dispatcherv1.TaskRecord]
	instances *fold.Table[*dispatcherv1.InstanceRecord]
	servers   *fold.Table[*dispatcherv1.ServerRecord]
	images    *fold.Table[*dispatcherv1.ImageRecord]
	agents    *fold.Table[*agentv1.Agent]
	refreshes *fold.Table[*dispatcherv1.RefreshRecord]
	admission *fold.Table[*dispatcherv1.AdmissionRecord]
	progress  *fold.Table[*dispatcherv1.ProgressRecord]

	indexes
	keepEnded   int
	keepIntents int
	counted     []string // intents whose counts the fact being applied changed
	// onDocument is told of each server whose document may have changed.
	onDocument func(server string)
}

// indexes is everything that is derived from the tables.
type indexes struct {
	due        btree.Map[uint64, string]                          // instance keys, by decided sequence
	stale      map[string]bool                                    // task ids
	ready      btree.Map[uint64, string]                          // task ids, by queued sequence
	readyOf    map[string][]uint64                                // by server, its keys in ready
	underWay   int                                                // how many tasks are assigned or running
	deadlines  *btree.BTreeG[deadline]                            // of open tasks
	succeeded  btree.Map[uint64, string]                          // ids of tasks that succeeded, by ended sequence
	otherwise  btree.Map[uint64, string]                          // ids of tasks that ended otherwise, by ended sequence
	through    *btree.BTreeG[place]                               // intents of which nothing is to come
	lists      map[string]*btree.Map[uint64, string]              // task ids by queued sequence; see listsOf
	openOf     map[string]map[string]*dispatcherv1.TaskRecord     // by server and task id, what has not ended
	instanceOf map[string]map[string]*dispatcherv1.InstanceRecord // by server and agent
	imageUsers map[string]int                                     // by image id, how often instances name it
	unused     []string                                           // images that lost their last user in the fact being applied
	refreshing map[string]map[string]bool                         // by server, the intents for which it needs a task
	refreshDue btree.Map[uint64, string]                          // intent ids, by sequence of accepted
}

// New makes an empty view. onDocument, which may be nil, is called while facts are
// applied; it must not block or look at the view.
func New(onDocument func(server string)) *View {
	if onDocument == nil {
		onDocument = func(string) {}
	}
	v := &View{
		tasks:     fold.NewTable[*dispatcherv1.TaskRecord]("task"),
		instances: fold.NewTable[*dispatcherv1.InstanceRecord]("instance"),
		servers:   fold.NewTable[*dispatcherv1.ServerRecord]("server"),
		images:    fold.NewTable[*dispatcherv1.ImageRecord]("image"),
		agents:    fold.NewTable[*agentv1.Agent]("agent"),
		refreshes: fold.NewTable[*dispatcherv1.RefreshRecord]("refresh"),
		admission: fold.NewTable[*dispatcherv1.AdmissionRecord]("admission"),
		progress:  fold.NewTable[*dispatcherv1.ProgressRecord]("progress"),
		keepEnded: KeepEnded, keepIntents: KeepIntents, onDocument: onDocument,
	}
	v.indexes = newIndexes()
	return v
}

func newIndexes() indexes {
	return indexes{
		stale: map[string]bool{}, readyOf: map[string][]uint64{},
		deadlines:  btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true}),
		through:    btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}),
		lists:      map[string]*btree.Map[uint64, string]{},
		openOf:     map[string]map[string]*dispatcherv1.TaskRecord{},
		instanceOf: map[string]map[string]*dispatcherv1.InstanceRecord{},
		imageUsers: map[string]int{}, refreshing: map[string]map[string]bool{},
	}
}

// Tables gives the tables, for snapshots.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{v.tasks, v.instances, v.servers, v.images, v.agents, v.refreshes, v.admission, v.progress}
}

// Apply folds one fact.
func (v *View) Apply(f ledger.Fact) bool {
	fits := v.applyFact(f)
	v.settleCounts(f.Sequence)
	return fits
}

func (v *View) applyFact(f ledger.Fact) bool {
	switch f.Noun {
	case ledger.Server:
		return v.applyServer(f)
	case ledger.Instance:
		return v.applyInstance(f)
	case ledger.Task:
		return v.applyTask(f)
	case ledger.Image:
		return v.applyImage(f)
	case ledger.Agent:
		return v.applyAgent(f)
	case ledger.Intent:
		switch b := f.Body.(type) {
		case *intentv1.Accepted:
			v.applyAccepted(f, b)
			v.countAccepted(f, b)
		case *intentv1.Withdrawn:
			v.applyWithdrawn(f)
		}
	}
	return true
}

// Loaded rebuilds every index from the tables.
func (v *View) Loaded() {
	v.indexes = newIndexes()
	for _, i := range v.instances.All() {
		v.indexInstance(i)
	}
	for id, r := range v.tasks.All() {
		v.indexTask(id, r)
	}
	for intent, r := range v.refreshes.All() {
		v.indexRefresh(intent, r)
	}
	for intent, r := range v.progress.All() {
		if r.EndedSequence > 0 {
			v.through.Set(place{r.EndedSequence, intent})
		}
	}
	for server := range v.instanceOf {
		v.reviewInstances(server)
	}
	for server := range v.openOf { // also of servers that were forgotten meanwhile
		v.reviewTasks(server)
	}
	v.ReviewDocuments()
}

// ReviewDocuments says of every document that it may have changed.
func (v *View) ReviewDocuments() {
	for id, s := range v.servers.All() {
		if s.DocumentGeneration > 0 {
			v.onDocument(id)
		}
	}
}
