package opening

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestATaskIsDueForAGenerationWithoutOne(t *testing.T) {
	alive := &dispatcherv1.ServerRecord{
		Life:           serverv1.Life_LIFE_ALIVE,
		Presence:       serverv1.Presence_PRESENCE_ONLINE,
		OnlineSequence: 50,
	}
	dying := &dispatcherv1.ServerRecord{
		Life:           serverv1.Life_LIFE_DYING,
		Presence:       serverv1.Presence_PRESENCE_ONLINE,
		OnlineSequence: 50,
	}
	cases := []struct {
		name     string
		instance *dispatcherv1.InstanceRecord
		server   *dispatcherv1.ServerRecord
		want     uint32
	}{
		{"a new generation", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 1, Attempt: 3}, alive, 1},
		{"one that has its task", &dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1}, alive, 0},
		{
			"expired, and the server is back",
			&dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1, ExpiredSequence: 40},
			alive,
			2,
		},
		{
			"expired while the server was online",
			&dispatcherv1.InstanceRecord{Generation: 2, TaskGeneration: 2, Attempt: 1, ExpiredSequence: 60},
			alive,
			0,
		},
		{"wanted on a dying server", &dispatcherv1.InstanceRecord{Generation: 2}, dying, 0},
		{"unwanted on a dying server", &dispatcherv1.InstanceRecord{Generation: 2, Unwanted: true}, dying, 1},
		{"on an unknown server", &dispatcherv1.InstanceRecord{Generation: 2}, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Due(c.instance, c.server); got != c.want {
				t.Errorf("attempt %d, want %d", got, c.want)
			}
		})
	}
}

func TestTheVerbFollowsFromWhatIsPlaced(t *testing.T) {
	one, two := &imagev1.Ref{Id: "1"}, &imagev1.Ref{Id: "2"}
	cases := []struct {
		name     string
		instance *dispatcherv1.InstanceRecord
		want     *taskv1.Queued
	}{
		{"nothing is placed", &dispatcherv1.InstanceRecord{Generation: 1, Wanted: one},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_INSTALL, Generation: 1, To: one}},
		{
			"another image is placed",
			&dispatcherv1.InstanceRecord{Generation: 2, Wanted: two, Placed: one, PlacedGeneration: 1},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_UPGRADE, Generation: 2, From: one, To: two},
		},
		{
			"it is unwanted",
			&dispatcherv1.InstanceRecord{Generation: 2, Unwanted: true, Placed: one, PlacedGeneration: 1},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_REMOVE, Generation: 2, From: one},
		},
		{
			"the same is wanted again",
			&dispatcherv1.InstanceRecord{Generation: 2, Wanted: one, Placed: one, PlacedGeneration: 1, Again: true},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_RESTART, Generation: 2, From: one, To: one},
		},
		{
			"another image is placed, and what is wanted is to be started again",
			&dispatcherv1.InstanceRecord{Generation: 2, Wanted: two, Placed: one, PlacedGeneration: 1, Again: true},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_UPGRADE, Generation: 2, From: one, To: two},
		},
		{
			"an earlier attempt expired",
			&dispatcherv1.InstanceRecord{
				Generation:       2,
				Wanted:           two,
				Placed:           two,
				PlacedGeneration: 2,
				Before:           one,
				Unsettled:        true,
			},
			&taskv1.Queued{Verb: taskv1.Verb_VERB_UPGRADE, Generation: 2, From: one, To: two},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, got := ForInstance(c.instance, 1, 1)
			c.want.Attempt = 1
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
