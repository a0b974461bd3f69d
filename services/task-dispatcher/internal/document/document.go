// Package document projects the dispatcher's view onto the document of one server.
//
// Guarantees:
//
//  1. Project is a pure function of its rows, and Encode of the document: two dispatchers at the same
//     position of the ledger write the same bytes.
//  2. An instance has an entry at the image of its last admitted change, or a removal, or neither
//     before a change was admitted; never both.
//  3. A task is named only while it is under way.
//  4. The document of a dead server has no entry and no request.
package document

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Rows is everything that a document is projected from.
type Rows struct {
	ServerID  string
	Server    *dispatcherv1.ServerRecord
	Instances []*dispatcherv1.InstanceRecord
	UnderWay  []*taskv1.Task // the server's tasks that are assigned or running
	Manifest  func(image string) *imagev1.Manifest

	Environment *dispatcherv1.EnvironmentRecord // the server's, or nil
	Unwanted    []string                        // the deferred tasks that are no longer wanted, by id
}

// Project returns the document. It shares the rows' messages, so it must be encoded or cloned before
// they change.
func Project(r Rows) *desiredv1.Document {
	d := &desiredv1.Document{
		ServerId: r.ServerID, Cell: r.Server.Cell, Generation: r.Server.DocumentGeneration,
		Life: r.Server.Life, Labels: r.Server.Labels,
		Epoch: r.Server.Epoch, LineageGenerations: r.Server.LineageGenerations, LineageMarks: r.Server.LineageMarks,
		ConfirmedGeneration: r.Server.ConfirmedGeneration, ConfirmedMark: r.Server.ConfirmedMark,
		ResetId: r.Server.ResetId,
	}
	if r.Server.Life == serverv1.Life_LIFE_DEAD {
		d.Tombstone = r.Server.Tombstone
		return d
	}
	d.Drift, d.DriftBraked = r.Environment.GetDrift(), r.Environment.GetDriftBraked()
	d.BusyLimit, d.UnwantedTaskIds = r.Environment.GetBusyLimit(), slices.Sorted(slices.Values(r.Unwanted))
	tasks := map[string]*taskv1.Task{}
	for _, t := range r.UnderWay {
		tasks[t.Id] = t
		if q := request(t, r.Manifest); q != nil {
			d.Requests = append(d.Requests, q)
		}
	}
	for _, i := range r.Instances {
		t := tasks[i.OpenTaskId]
		if i.Removing {
			d.Removals = append(d.Removals, &desiredv1.Removal{
				Agent:      i.Agent,
				InstanceId: i.InstanceId,
				TaskId:     t.GetId(),
				Deadline:   t.GetDeadline(),
				Release:    i.Releasing,
			})
		} else if m := r.Manifest(i.Placed.GetId()); i.Placed != nil && m != nil {
			d.Entries = append(d.Entries, entry(i, m, t))
		}
	}
	slices.SortFunc(d.Entries, func(a, b *desiredv1.Entry) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortFunc(d.Removals, func(a, b *desiredv1.Removal) int { return cmp.Compare(a.Agent, b.Agent) })
	slices.SortFunc(d.Requests, func(a, b *desiredv1.Request) int { return cmp.Compare(a.TaskId, b.TaskId) })
	return d
}

// request returns what a refresh asks for; nil for any other task, and for an image that is fetched ahead and no more.
func request(t *taskv1.Task, manifest func(image string) *imagev1.Manifest) *desiredv1.Request {
	if t.Verb != taskv1.Verb_VERB_REFRESH {
		return nil
	}
	q := &desiredv1.Request{TaskId: t.Id, Deadline: t.Deadline, Scan: t.Scan, PurgeKept: t.PurgeKept}
	if t.Ahead != nil {
		if q.Ahead, q.KeepUntil = manifest(t.Ahead.GetImage().GetId()), t.Ahead.KeepUntil; q.Ahead == nil {
			return nil
		}
	}
	return q
}

func entry(i *dispatcherv1.InstanceRecord, m *imagev1.Manifest, t *taskv1.Task) *desiredv1.Entry {
	return &desiredv1.Entry{
		Agent: i.Agent, InstanceId: i.InstanceId, Generation: i.PlacedGeneration, Image: m,
		Tier: i.Tier, Dependencies: i.Dependencies,
		TaskId: t.GetId(), Verb: t.GetVerb(), Deadline: t.GetDeadline(),
		AdoptCandidate: i.PlacedCandidate,
		Metadata:       i.PlacedConfiguration.GetMetadata(), ConfigurationDigest: i.PlacedConfiguration.GetDigest(),
	}
}

// Newer reports whether a document has a higher epoch than another one, or a later generation in the
// same epoch.
func Newer(d, other *desiredv1.Document) bool {
	epochs := cmp.Compare(max(d.GetEpoch(), 1), max(other.GetEpoch(), 1))
	return cmp.Or(epochs, cmp.Compare(d.GetGeneration(), other.GetGeneration())) > 0
}

// Encode encodes a document; equal documents have equal bytes.
func Encode(d *desiredv1.Document) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(d)
}

// Reveal returns the document with its secrets in clear, for the server alone. Without secrets it is the document
// itself; otherwise a copy that shares everything else. The executor refuses a change that lacks a secret, so an entry
// whose secrets do not open stays, and the first such error is returned.
func Reveal(d *desiredv1.Document, key *secret.Key) (*desiredv1.Document, error) {
	var failed error
	out := d
	for n, e := range d.GetEntries() {
		secrets, err := metadata.Open(key, e.GetMetadata())
		if err != nil && failed == nil {
			failed = fmt.Errorf("agent %s: %w", e.GetAgent(), err)
		}
		if len(secrets) == 0 {
			continue
		}
		if out == d {
			out = shallow(d)
			out.Entries = slices.Clone(d.GetEntries())
		}
		out.Entries[n] = shallow(e)
		out.Entries[n].Secrets = secrets
	}
	return out, failed
}

// shallow returns a copy of a message that shares its parts.
func shallow[T proto.Message](m T) T {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(f, v)
		return true
	})
	return out.Interface().(T)
}
