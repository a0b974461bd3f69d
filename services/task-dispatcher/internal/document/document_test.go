package document

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func manifest(id string) *imagev1.Manifest {
	if id != "i1" {
		return nil
	}
	return &imagev1.Manifest{Id: id, Agent: "a"}
}

var (
	until  = timestamppb.New(time.Unix(1_700_000_000, 0))
	placed = &imagev1.Ref{Id: "i1"}
)

// projections are what is known of an agent, and the document that follows.
var projections = []struct {
	name     string
	life     serverv1.Life
	instance *dispatcherv1.InstanceRecord
	underWay *taskv1.Task
	want     *desiredv1.Document
}{
	{"nothing was admitted", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{Agent: "a", InstanceId: "x", Generation: 1, Wanted: placed}, nil,
		&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE}},
	{"a change is under way", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{
			Agent:            "a",
			InstanceId:       "x",
			Placed:           placed,
			PlacedGeneration: 2,
			OpenTaskId:       "t",
			Tier:             3,
			Dependencies:     []string{"b"},
		},
		&taskv1.Task{Id: "t", Verb: taskv1.Verb_VERB_UPGRADE, Deadline: until},
		&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE, Entries: []*desiredv1.Entry{{
			Agent: "a", InstanceId: "x", Generation: 2, Image: manifest("i1"), Tier: 3, Dependencies: []string{"b"},
			TaskId: "t", Verb: taskv1.Verb_VERB_UPGRADE, Deadline: until,
		}}}},
	{"the change ended", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{Agent: "a", InstanceId: "x", Placed: placed, PlacedGeneration: 2}, nil,
		&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE, Entries: []*desiredv1.Entry{{
			Agent: "a", InstanceId: "x", Generation: 2, Image: manifest("i1"),
		}}}},
	{"with a configuration", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{
			Agent: "a", InstanceId: "x", Placed: placed, PlacedGeneration: 2,
			Configuration: &instancev1.Configuration{
				Metadata: map[string]string{"k": "wanted"},
				Digest:   []byte{1},
			},
			PlacedConfiguration: &instancev1.Configuration{
				Metadata: map[string]string{"k": "placed"},
				Digest:   []byte{2},
			},
			BeforeConfiguration: &instancev1.Configuration{
				Metadata: map[string]string{"k": "before"},
				Digest:   []byte{3},
			},
		}, nil,
		&desiredv1.Document{Life: serverv1.Life_LIFE_ALIVE, Entries: []*desiredv1.Entry{{
			Agent: "a", InstanceId: "x", Generation: 2, Image: manifest("i1"),
			Metadata: map[string]string{"k": "placed"}, ConfigurationDigest: []byte{2},
		}}}},
	{"a removal is under way", serverv1.Life_LIFE_DYING,
		&dispatcherv1.InstanceRecord{Agent: "a", InstanceId: "x", Removing: true, OpenTaskId: "t"},
		&taskv1.Task{Id: "t", Verb: taskv1.Verb_VERB_REMOVE, Deadline: until},
		&desiredv1.Document{
			Life:     serverv1.Life_LIFE_DYING,
			Removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x", TaskId: "t", Deadline: until}},
		}},
	{"a removal failed and stays asked for", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{Agent: "a", InstanceId: "x", Removing: true}, nil,
		&desiredv1.Document{
			Life:     serverv1.Life_LIFE_ALIVE,
			Removals: []*desiredv1.Removal{{Agent: "a", InstanceId: "x"}},
		}},
	{"a refresh is under way", serverv1.Life_LIFE_ALIVE,
		&dispatcherv1.InstanceRecord{
			Agent:      "a",
			InstanceId: "x",
		}, &taskv1.Task{Id: "t", Verb: taskv1.Verb_VERB_REFRESH, Deadline: until},
		&desiredv1.Document{
			Life:     serverv1.Life_LIFE_ALIVE,
			Requests: []*desiredv1.Request{{TaskId: "t", Deadline: until}},
		}},
	{"the server is dead", serverv1.Life_LIFE_DEAD,
		&dispatcherv1.InstanceRecord{Agent: "a", InstanceId: "x", Placed: placed, OpenTaskId: "t"},
		&taskv1.Task{Id: "t", Verb: taskv1.Verb_VERB_UPGRADE, Deadline: until},
		&desiredv1.Document{Life: serverv1.Life_LIFE_DEAD}},
}

func TestADocumentHoldsWhatWasAdmittedAndNothingElse(t *testing.T) {
	for _, c := range projections {
		t.Run(c.name, func(t *testing.T) {
			r := Rows{
				ServerID: "s", Manifest: manifest, Instances: []*dispatcherv1.InstanceRecord{c.instance},
				Server: &dispatcherv1.ServerRecord{
					Cell:               "main",
					Life:               c.life,
					DocumentGeneration: 7,
					Labels:             map[string]string{"k": "v"},
				},
			}
			if c.underWay != nil {
				r.UnderWay = append(r.UnderWay, c.underWay)
			}
			c.want.ServerId, c.want.Cell, c.want.Generation, c.want.Labels = "s", "main", 7, map[string]string{"k": "v"}
			if diff := cmp.Diff(c.want, Project(r), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
