package inventory

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	good   = instancev1.Health_HEALTH_GOOD
	bad    = instancev1.Health_HEALTH_BAD
	absent = instancev1.Health_HEALTH_ABSENT
)

var one, two = &imagev1.Ref{Id: "one", Digest: []byte{1}}, &imagev1.Ref{Id: "two", Digest: []byte{2}}

// after folds bodies into an instance, tasks included; it fails when one does not fit.
func after(t *testing.T, steps ...proto.Message) *instancev1.Instance {
	t.Helper()
	var i *instancev1.Instance
	for n, s := range steps {
		if task, ok := s.(*taskv1.Task); ok {
			instance.ApplyTask(i, task, time.Unix(int64(n), 0))
			continue
		}
		f := ledger.Fact{Noun: ledger.Instance, Key: "server.web", Body: s, At: time.Unix(int64(n), 0)}
		next, fit := instance.Apply(i, f)
		if !fit {
			t.Fatalf("step %d does not fit: %v", n, s)
		}
		i = next
	}
	return i
}

func wanted(generation uint64, image *imagev1.Ref) *instancev1.Wanted {
	return &instancev1.Wanted{InstanceId: "i", Generation: generation, Image: image, IntentId: "intent"}
}

func configured(generation uint64, digest byte) *instancev1.Wanted {
	w := wanted(generation, one)
	w.Configuration = &instancev1.Configuration{Digest: []byte{digest}}
	return w
}

func succeeded(to *imagev1.Ref) *taskv1.Task {
	return &taskv1.Task{Id: "t", InstanceId: "i", Generation: 1, State: taskv1.State_STATE_SUCCEEDED, To: to}
}

// listed is an observation of the image and of the generation that brought it.
func listed(generation uint64, image *imagev1.Ref, digest ...byte) *instancev1.Observed {
	return &instancev1.Observed{
		InstanceId: "i", Image: image, Health: good, Generation: generation, ConfigurationDigest: digest,
	}
}

func listedBad(generation uint64, image *imagev1.Ref, why string) *instancev1.Observed {
	o := listed(generation, image)
	o.Health, o.Reason = bad, why
	return o
}

func TestOnlyDifferencesAreReturned(t *testing.T) {
	settled := after(t, wanted(1, one), succeeded(one), listed(1, one))
	fresh := after(t, wanted(1, one))
	tuned := after(t, configured(1, 7), succeeded(one), listed(1, one, 7))
	again := after(t, wanted(1, one), listed(1, one), wanted(2, one))
	noted := after(t, wanted(1, one), listedBad(1, one, "exit 1"), wanted(2, two),
		&taskv1.Task{Id: "t", InstanceId: "i", Generation: 2, State: taskv1.State_STATE_UNDONE, From: one, To: two,
			Reason: "because"})
	broken := after(t, wanted(1, one), &instancev1.Observed{InstanceId: "i", Image: one, Health: bad, Reason: "exit 1"})
	for _, c := range []struct {
		name  string
		i     *instancev1.Instance
		found []*reportv1.Found
		want  instancev1.Health // 0 means no difference
	}{
		{"as it should be", settled, []*reportv1.Found{{Agent: "web", Image: one, Health: good}}, 0},
		{"an unmanaged agent", settled, []*reportv1.Found{
			{Agent: "web", Image: one, Health: good}, {Agent: "cron", Image: two, Health: good},
		}, 0},
		{"with its configuration", tuned, []*reportv1.Found{
			{Agent: "web", Image: one, Health: good, ConfigurationDigest: []byte{7}},
		}, 0},
		{"with another configuration", tuned, []*reportv1.Found{
			{Agent: "web", Image: one, Health: good, ConfigurationDigest: []byte{8}},
		}, good},
		{"without its configuration", tuned, []*reportv1.Found{{Agent: "web", Image: one, Health: good}}, good},
		{"gone", settled, nil, absent},
		{"not installed yet", fresh, nil, 0},
		{"arrived", fresh, []*reportv1.Found{{Agent: "web", Image: one, Health: good}}, good},
		{"another image", settled, []*reportv1.Found{{Agent: "web", Image: two, Health: good}}, good},
		{"still broken in the same way", broken, []*reportv1.Found{
			{Agent: "web", Image: one, Health: bad, Reason: "exit 1"},
		}, 0},
		{"still broken after a change that was rolled back", noted, []*reportv1.Found{
			{Agent: "web", Image: one, Health: bad, Reason: "exit 1"},
		}, 0},
		{"the same, of a newer generation", again, []*reportv1.Found{
			{Agent: "web", InstanceId: "i", Generation: 2, Image: one, Health: good},
		}, good},
		{"the same, of another instance", again, []*reportv1.Found{
			{Agent: "web", InstanceId: "j", Generation: 2, Image: one, Health: good},
		}, 0},
		{
			"broken in another way", broken,
			[]*reportv1.Found{{Agent: "web", Image: one, Health: bad, Reason: "killed"}}, bad,
		},
		{
			"broken in the same way with another number", broken,
			[]*reportv1.Found{{Agent: "web", Image: one, Health: bad, Reason: "exit 21"}}, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Differences(slices.Values([]*instancev1.Instance{c.i}), &reportv1.AgentsReport{Agents: c.found})
			if (len(d) == 1) != (c.want != 0) || len(d) == 1 && d[0].Observed.Health != c.want {
				t.Errorf("differences %v; want health %s", d, c.want)
			}
		})
	}
}
