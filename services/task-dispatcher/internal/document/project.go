package document

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Rows is everything that a document is made from.
type Rows struct {
	ServerID  string
	Server    *dispatcherv1.ServerRecord
	Instances []*dispatcherv1.InstanceRecord
	UnderWay  []*taskv1.Task // the server's tasks that are assigned or running
	Manifest  func(image string) *imagev1.Manifest
}

// Project makes the document. It shares the rows' messages, so it must be encoded or
// cloned before they may change.
func Project(r Rows) *desiredv1.Document {
	d := &desiredv1.Document{
		ServerId: r.ServerID, Cell: r.Server.Cell, Generation: r.Server.DocumentGeneration,
		Life: r.Server.Life, Labels: r.Server.Labels,
		Epoch: r.Server.Epoch, LineageGenerations: r.Server.LineageGenerations, LineageMarks: r.Server.LineageMarks,
		ConfirmedGeneration: r.Server.ConfirmedGeneration, ConfirmedMark: r.Server.ConfirmedMark,
	}
	if r.Server.Life == serverv1.Life_LIFE_DEAD {
		d.Tombstone = r.Server.Tombstone
		return d
	}
	tasks := map[string]*taskv1.Task{}
	for _, t := range r.UnderWay {
		tasks[t.Id] = t
		if t.Verb == taskv1.Verb_VERB_REFRESH {
			d.Requests = append(d.Requests, &desiredv1.Request{TaskId: t.Id, Deadline: t.Deadline})
		}
	}
	for _, i := range r.Instances {
		t := tasks[i.OpenTaskId]
		if i.Removing {
			d.Removals = append(d.Removals, &desiredv1.Removal{Agent: i.Agent, InstanceId: i.InstanceId, TaskId: t.GetId(), Deadline: t.GetDeadline()})
		} else if m := r.Manifest(i.Placed.GetId()); i.Placed != nil && m != nil {
			d.Entries = append(d.Entries, entry(i, m, t))
		}
	}
	slices.SortFunc(d.Entries, func(a, b *desiredv1.Entry) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortFunc(d.Removals, func(a, b *desiredv1.Removal) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortFunc(d.Requests, func(a, b *desiredv1.Request) int { return cmp.Compare(a.TaskId, b.TaskId) })
	return d
}

func entry(i *dispatcherv1.InstanceRecord, m *imagev1.Manifest, t *taskv1.Task) *desiredv1.Entry {
	return &desiredv1.Entry{
		Agent: i.Agent, InstanceId: i.InstanceId, Generation: i.PlacedGeneration, Image: m,
		Tier: i.Tier, Dependencies: i.Dependencies,
		TaskId: t.GetId(), Verb: t.GetVerb(), Deadline: t.GetDeadline(),
		Metadata: i.PlacedConfiguration.GetMetadata(), ConfigurationDigest: i.PlacedConfiguration.GetDigest(),
	}
}

// Newer reports whether a document is of a higher epoch than another one, or of a later generation of the same epoch.
func Newer(d, other *desiredv1.Document) bool {
	epochs := cmp.Compare(max(d.GetEpoch(), 1), max(other.GetEpoch(), 1))
	return cmp.Or(epochs, cmp.Compare(d.GetGeneration(), other.GetGeneration())) > 0
}

// Encode writes a document, always in the same bytes.
func Encode(d *desiredv1.Document) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(d)
}
