package image_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/image"
)

const id = "1"

// record returns a record in a state; nil for the states without one.
func record(s image.State, filled bool) *imagev1.Image {
	if s == image.Unknown || s == image.Deleted {
		return nil
	}
	return &imagev1.Image{
		Manifest: &imagev1.Manifest{Id: id}, State: s.Proto(), Filled: filled, Since: timestamppb.New(time.Unix(1, 0)),
	}
}

// fact returns a fact of a kind about the image.
func fact(k ledger.Kind) ledger.Fact {
	body := proto.Clone(k.Body)
	if b, ok := body.(*imagev1.Created); ok {
		b.Manifest = &imagev1.Manifest{Id: id}
	}
	return ledger.Fact{Noun: k.Noun, Key: id, Body: body, At: time.Unix(2, 0)}
}

func TestEveryReachableStateHasARow(t *testing.T) {
	if err := image.Life.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestLifeHasExactlyTheseTransitions(t *testing.T) {
	want := map[image.State]map[string]image.State{
		image.Unknown: {"created": image.Unactivated},
		image.Unactivated: {
			"filled": image.Unactivated, "activated": image.Active, "deleted": image.Deleted,
		},
		image.Active:   {"disabled": image.Disabled},
		image.Disabled: {"enabled": image.Active, "deleted": image.Deleted},
		image.Deleted:  {},
	}
	for _, s := range image.Life.States() {
		for _, f := range image.Life.Facts() {
			next, ok := image.Life.Next(s, f)
			if wanted, can := want[s][f]; ok != can || (can && next != wanted) {
				t.Errorf("%s after %s: %s (%v), want %s (%v)", s, f, next, ok, wanted, can)
			}
		}
	}
}

func TestEveryFactInEveryStateMovesAsLifeDefinesOrChangesNothing(t *testing.T) {
	for _, s := range image.Life.States() {
		for _, filled := range []bool{false, true} {
			for _, k := range ledger.Kinds {
				if k.Noun != ledger.Image || s == image.Deleted {
					continue // a deleted image has no record: its next life begins at Unknown
				}
				before := record(s, filled)
				next, want := image.Life.Next(s, k.Name)
				want = want && !(k.Name == "filled" && filled) && !(k.Name == "activated" && !filled)
				after, fit := image.Apply(proto.CloneOf(before), fact(k))
				switch {
				case fit != want:
					t.Errorf("%s (filled: %v) after %s: fit %v, want %v", s, filled, k.Name, fit, want)
				case !fit && !proto.Equal(before, after):
					t.Errorf("%s (filled: %v) after %s: did not fit and changed", s, filled, k.Name)
				case fit && (after == nil) != (next == image.Deleted):
					t.Errorf("%s after %s: record %v", s, k.Name, after)
				case fit && after != nil && image.StateOf(after.State) != next:
					t.Errorf("%s after %s: %s, want %s", s, k.Name, after.State, next)
				}
			}
		}
	}
}

func TestACreatedImageMustHaveTheIDOfItsKey(t *testing.T) {
	f := fact(ledger.Kind{Noun: ledger.Image, Name: "created", Body: &imagev1.Created{}})
	f.Key = "2"
	if _, fit := image.Apply(nil, f); fit {
		t.Error("a manifest with another id fits")
	}
}

func TestTheReasonLastsWhileAnImageIsDisabled(t *testing.T) {
	i := record(image.Active, true)
	i, _ = image.Apply(i, ledger.Fact{Noun: ledger.Image, Key: id, Body: &imagev1.Disabled{Reason: "CVE"}})
	if i.Reason != "CVE" {
		t.Errorf("reason %q, want CVE", i.Reason)
	}
	if i, _ = image.Apply(i, ledger.Fact{Noun: ledger.Image, Key: id, Body: &imagev1.Enabled{}}); i.Reason != "" {
		t.Errorf("reason %q after enabled, want none", i.Reason)
	}
}

func TestStatesConvertToTheContractAndBack(t *testing.T) {
	for n := range imagev1.State_name {
		s := imagev1.State(n)
		if s != imagev1.State_STATE_UNSPECIFIED && image.StateOf(s).Proto() != s {
			t.Errorf("%v becomes %q", s, image.StateOf(s))
		}
	}
}
