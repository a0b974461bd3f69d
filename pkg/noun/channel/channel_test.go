package channel_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/channel"
)

func known(id string) bool { return id != "unknown" }

func fact(body proto.Message) ledger.Fact {
	return ledger.Fact{Noun: ledger.Channel, Key: "release", Body: body}
}

func TestEveryReachableStateHasARow(t *testing.T) {
	if err := channel.Life.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFactInEveryStateMovesAsLifeDefinesOrChangesNothing(t *testing.T) {
	bodies := map[string]proto.Message{
		"created": &channelv1.Created{}, "image-added": &channelv1.ImageAdded{ImageId: "b"},
		"image-removed": &channelv1.ImageRemoved{ImageId: "a"}, "deleted": &channelv1.Deleted{},
	}
	for _, k := range ledger.Kinds {
		if k.Noun != ledger.Channel {
			continue
		}
		for s, before := range map[channel.State]*channelv1.Channel{
			channel.Unknown: nil, channel.Created: {Name: "release", ImageIds: []string{"a"}},
		} {
			next, want := channel.Life.Next(s, k.Name)
			after, fit := channel.Apply(proto.CloneOf(before), fact(bodies[k.Name]), known)
			switch {
			case fit != want:
				t.Errorf("%s after %s: fit %v, want %v", s, k.Name, fit, want)
			case !fit && !proto.Equal(before, after):
				t.Errorf("%s after %s: did not fit and changed", s, k.Name)
			case fit && (after == nil) != (next == channel.Deleted):
				t.Errorf("%s after %s: record %v", s, k.Name, after)
			}
		}
	}
}

func TestAChannelHoldsEachKnownImageOnceInTheOrderOfTheFacts(t *testing.T) {
	steps := []struct {
		body proto.Message
		fit  bool
		want []string
	}{
		{&channelv1.ImageAdded{ImageId: "a"}, true, []string{"a"}},
		{&channelv1.ImageAdded{ImageId: "b"}, true, []string{"a", "b"}},
		{&channelv1.ImageAdded{ImageId: "a"}, false, []string{"a", "b"}},
		{&channelv1.ImageAdded{ImageId: "unknown"}, false, []string{"a", "b"}},
		{&channelv1.ImageRemoved{ImageId: "c"}, false, []string{"a", "b"}},
		{&channelv1.ImageRemoved{ImageId: "a"}, true, []string{"b"}},
		{&channelv1.ImageAdded{ImageId: "a"}, true, []string{"b", "a"}},
	}
	c, _ := channel.Apply(nil, fact(&channelv1.Created{}), known)
	for n, s := range steps {
		var fit bool
		if c, fit = channel.Apply(c, fact(s.body), known); fit != s.fit || !slices.Equal(c.ImageIds, s.want) {
			t.Errorf("step %d: %v, fit %v; want %v, %v", n, c.ImageIds, fit, s.want, s.fit)
		}
	}
}

func TestDropTakesAnImageOutOnce(t *testing.T) {
	c := &channelv1.Channel{ImageIds: []string{"a", "b"}}
	if !channel.Drop(c, "a") || channel.Drop(c, "a") || !slices.Equal(c.ImageIds, []string{"b"}) {
		t.Errorf("images %v", c.ImageIds)
	}
}
