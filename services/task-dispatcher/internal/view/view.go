// Package view is the dispatcher's view: tables folded from the ledger, and indexes of the work that
// is due.
//
// View folds each fact into the tables and has the parts that depend on it brought up to date:
//
//	Rows       answers about one task, server or document, and whether a change is still wanted
//	Queue      finds what may be assigned and what must end
//	Durations  learns how long tasks take, and bounds how long others may
//	Listing    lists, counts and explains tasks for people
//
// Tables are the whole state, and the only content of a snapshot. Each index is a pure function of
// the tables and is updated with each fact, so that finding work costs what there is to do, and
// not the size of the fleet:
//
//	due        instances that need a task, in the ledger's order
//	outdated   queued tasks that must end, because their outcome is no longer wanted
//	ready      tasks that may be assigned when a slot is free, queued or still to be opened, in the queue's order
//	deadlines  open tasks by deadline
//	lists      tasks by intent, server, agent and state, in the queue's order
//
// Guarantees:
//
//  1. The view is a function of the facts: no clock, no error, no order of a map.
//  2. A fact that does not fit changes nothing but the sequence of its key. Which facts fit is
//     defined by pkg/noun.
//  3. All open tasks are in the view; of the ended ones the last KeepEnded, in the order in which
//     they ended.
//  4. The generation of a document moves with exactly the facts that change it.
package view

import (
	"github.com/tidwall/btree"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// Layout is the version of the tables and the fold; a snapshot of another one is not read.
const Layout = 34

// KeepEnded is how many successful tasks stay in the view, and how many that ended otherwise.
const KeepEnded = 10_000

// Nouns are the nouns that the view folds.
var Nouns = []ledger.Noun{
	ledger.Agent, ledger.Environment, ledger.Server, ledger.Instance, ledger.Intent, ledger.Image, ledger.Task,
	ledger.Hold,
}

// View is the dispatcher's view: it folds facts into the tables, and its parts answer from them.
type View struct {
	*tables
	Rows      *Rows      // one task, server or document
	Queue     *Queue     // what is due
	Durations *Durations // how long tasks take
	Listing   *Listing   // tasks for people
	keeps     *keeps
}

// tables is the whole state with its lists. Every part of the view has it.
type tables struct {
	tasks     *fold.Table[*dispatcherv1.TaskRecord]
	instances *instances
	servers   *fold.Table[*dispatcherv1.ServerRecord]
	agents    *fold.Table[*agentv1.Agent]
	settings  *fold.Table[*dispatcherv1.EnvironmentRecord] // by environment
	images    *images
	refreshes *refreshes
	claims    *claims
	counts    *counts
	durations *fold.Table[*dispatcherv1.DurationsRecord] // by agent and verb
	Site      *Site

	lists     *taskLists
	open      map[string]map[string]*dispatcherv1.TaskRecord // by server and task id, what has not ended
	ended     *endedTasks
	documents *documents
}

// New returns an empty view. onDocument, which may be nil, is called while facts are applied; it must
// not block or read the view.
func New(onDocument func(server string)) *View {
	if onDocument == nil {
		onDocument = func(string) {}
	}
	t := &tables{
		tasks:     fold.NewTable[*dispatcherv1.TaskRecord]("task"),
		instances: &instances{table: fold.NewTable[*dispatcherv1.InstanceRecord]("instance")},
		servers:   fold.NewTable[*dispatcherv1.ServerRecord]("server"),
		agents:    fold.NewTable[*agentv1.Agent]("agent"),
		settings:  fold.NewTable[*dispatcherv1.EnvironmentRecord]("environment"),
		Site:      &Site{pauses: fold.NewTable[*holdv1.Hold]("pause")},
		images:    &images{table: fold.NewTable[*dispatcherv1.ImageRecord]("image")},
		refreshes: &refreshes{table: fold.NewTable[*dispatcherv1.RefreshRecord]("refresh")},
		claims:    &claims{table: fold.NewTable[*dispatcherv1.AdmissionRecord]("admission")},
		counts:    &counts{table: fold.NewTable[*dispatcherv1.ProgressRecord]("progress"), keep: KeepIntents},
		durations: fold.NewTable[*dispatcherv1.DurationsRecord]("durations"),
		ended:     &endedTasks{keep: KeepEnded},
	}
	t.instances.servers, t.instances.images = t.servers, t.images
	t.documents = &documents{servers: t.servers, notify: onDocument}
	rows := &Rows{t}
	keeps := &keeps{tables: t, rows: rows}
	queue := &Queue{tables: t, rows: rows, keeps: keeps}
	v := &View{
		tables: t, Rows: rows, keeps: keeps, Queue: queue, Durations: &Durations{t, rows},
		Listing: &Listing{tables: t, rows: rows, queue: queue},
	}
	v.resetIndexes()
	return v
}

// resetIndexes empties everything that is derived from the tables.
func (v *View) resetIndexes() {
	v.lists = newTaskLists(v.tasks)
	v.open = map[string]map[string]*dispatcherv1.TaskRecord{}
	v.instances.byServer = map[string]map[string]*dispatcherv1.InstanceRecord{}
	v.instances.due = btree.Map[uint64, string]{}
	v.ended = &endedTasks{tasks: v.tasks, keep: v.ended.keep}
	v.images.users, v.images.unused = map[string]int{}, nil
	v.refreshes.byServer, v.refreshes.due = map[string]map[string]bool{}, btree.Map[uint64, string]{}
	v.counts.load()
	v.keeps.tally = keep.NewTally()
	v.Queue.indexes = newIndexes()
	v.Queue.ranks = ranksOf(v.agents)
}

// Tables returns the tables, for snapshots.
func (v *View) Tables() []fold.Stored {
	return []fold.Stored{v.tasks, v.instances.table, v.servers, v.images.table, v.agents, v.settings, v.Site.pauses,
		v.refreshes.table, v.claims.table, v.counts.table, v.durations}
}

// Apply folds one fact.
func (v *View) Apply(f ledger.Fact) bool {
	v.Site.now = f.At
	fits := v.applyFact(f)
	v.counts.settle(f.Sequence)
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
	case ledger.Environment:
		return v.applyEnvironment(f)
	case ledger.Hold:
		return v.Site.apply(f)
	case ledger.Intent:
		switch b := f.Body.(type) {
		case *intentv1.Accepted:
			v.applyAccepted(f, b)
			v.counts.accepted(f, b)
		case *intentv1.Withdrawn:
			v.applyWithdrawn(f)
		}
	}
	return true
}

// Loaded rebuilds every index from the tables.
func (v *View) Loaded() {
	v.resetIndexes()
	for _, i := range v.instances.table.All() {
		v.instances.index(i)
	}
	for id, r := range v.tasks.All() {
		v.lists.add(id, r)
		v.Queue.add(id, r)
	}
	for intent, r := range v.refreshes.table.All() {
		v.refreshes.index(intent, r)
	}
	for server := range v.instances.byServer {
		v.instances.reviewServer(server)
		v.Queue.review(server)
	}
	for server := range v.open { // also those of refreshes, and of servers that were forgotten meanwhile
		v.Queue.review(server)
	}
	for server := range v.servers.All() {
		v.keeps.review(server)
	}
	v.ReviewDocuments()
}

// ReviewDocuments calls onDocument for every document.
func (v *View) ReviewDocuments() {
	for id, s := range v.servers.All() {
		if s.DocumentGeneration > 0 {
			v.documents.notify(id)
		}
	}
}
