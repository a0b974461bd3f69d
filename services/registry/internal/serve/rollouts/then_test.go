package rollouts

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// bringing is a rollout that installs web everywhere, a server before the others, and ends with changes.
func bringing(then ...*rolloutv1.Standing) *intentv1.Intent {
	in := up(&rolloutv1.Strategy{Approve: true}, taking(1))
	in.GetRollout().Steps = []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}}
	in.GetRollout().Then = then
	return in
}

func thenDefault(level string) *rolloutv1.Standing {
	return &rolloutv1.Standing{Change: &rolloutv1.Standing_Default{Default: &rolloutv1.StandingDefault{
		Environment: "prod", Agent: "web", Metadata: map[string]string{"level": level},
	}}}
}

// setByHand sets the default of web for servers that join from now on.
func (f *fleet) setByHand(level string) {
	f.Fact(ledger.Environment, "prod", &environmentv1.DefaultSet{
		Agent: "web", Reach: environmentv1.Reach_REACH_NEW, Metadata: map[string]string{"level": level},
	})
}

// byDefault returns the default of web; nil for none.
func (f *fleet) byDefault() *environmentv1.Default {
	e, _ := f.View.Environment("prod")
	return proto.CloneOf(e.GetDefaults()["web"])
}

// ended returns the fact of a rollout's success.
func (f *fleet) ended(id string) (b *rolloutv1.Succeeded) {
	for _, x := range f.Facts {
		if succeeded, ok := x.Body.(*rolloutv1.Succeeded); ok && x.Key == id {
			b = succeeded
		}
	}
	return b
}

func TestADefaultThatIsSetAgainByAnUndoHasTheReachThatItHad(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.setByHand("info") // which reaches none of the three
	f.Fact(ledger.Server, f.servers[0], &serverv1.Offline{})
	id := f.start(bringing(thenDefault("debug")))
	f.until("the first wave passed", nil, f.passed(id, 1))
	if d := f.byDefault(); d.Metadata["level"] != "info" {
		t.Errorf("before every wave passed the default is %v", d)
	}
	f.control(id, approve)
	f.succeeds(id)
	if d := f.byDefault(); d.Metadata["level"] != "debug" || d.Reach != environmentv1.Reach_REACH_ALL ||
		d.RolloutId != id || d.Actor != "alice" || d.AllSince == 0 {
		t.Errorf("the default is %v; want one for all servers by the rollout, of alice", d)
	}
	for _, s := range f.servers[1:] {
		if have := f.Instance(s, "web").GetConfiguration().GetMetadata()["level"]; have != "debug" {
			t.Errorf("web has level %q; want the value of the default", have)
		}
	}
	f.start(undoOf(id, nil))
	if d := f.byDefault(); d.GetMetadata()["level"] != "info" || d.GetAllSince() != 0 {
		t.Errorf("after the undo the default is %v; want the first one, for new servers", d)
	}
}

func TestADefaultThatIsSetWhileARolloutRunsStays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	id := f.start(bringing(thenDefault("debug")))
	f.until("the first wave passed", nil, f.passed(id, 1))
	f.setByHand("trace")
	f.control(id, approve)
	f.succeeds(id)
	if d := f.byDefault(); d.GetMetadata()["level"] != "trace" || len(f.ended(id).Then) > 0 {
		t.Errorf("the default is %v, and the rollout recorded %v; want the one that was set last", d, f.ended(id).Then)
	}
}

func TestARolloutThatHaltsRecordsNoDefault(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.Image("web", "1.1.0")
	id := f.start(bringing(thenDefault("debug")))
	f.until("it halts", everywhere, f.is(id, rolloutv1.State_STATE_HALTED))
	f.control(id, abort)
	f.look()
	if d := f.byDefault(); d != nil {
		t.Errorf("it recorded %v", d)
	}
}

func TestARolloutNamesTheImagesThatItPromotes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	f.Fact(ledger.Channel, "stable", &channelv1.Created{})
	id := f.start(bringing(&rolloutv1.Standing{Change: &rolloutv1.Standing_Promotion{
		Promotion: &rolloutv1.StandingPromotion{Channel: "stable"},
	}}))
	f.succeeds(id)
	if then := f.ended(id).Then; len(then) != 1 || len(then[0].GetPromotion().GetImageIds()) != 1 {
		t.Errorf("it ends with %v; want one image for the channel", then)
	}
}
