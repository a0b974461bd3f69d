package image

import (
	"flag"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

var update = flag.Bool("update", false, "write the picture into the README")

func TestEveryStateThatIsReachedHasARow(t *testing.T) {
	if err := Life.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestTheLifeOfAnImageIsThisAndNothingElse(t *testing.T) {
	want := map[State]map[Event]State{
		Unactivated: {Filled: Unactivated, Activated: Active, WasErased: Deleted},
		Active:      {WasOff: Disabled},
		Disabled:    {Enabled: Active, WasErased: Deleted},
		Deleted:     {},
	}
	for _, s := range Life.States() {
		for _, e := range Life.Facts() {
			next, ok := Life.Next(s, e)
			if wanted, can := want[s][e]; ok != can || (can && next != wanted) {
				t.Errorf("%s and %s give %s (%v), want %s (%v)", s, e, next, ok, wanted, can)
			}
		}
	}
}

func TestEveryFactAboutAnImageButCreatedIsAnEventOfThatName(t *testing.T) {
	for _, k := range ledger.Kinds {
		want := Event("")
		if k.Noun == ledger.Image && k.Name != "created" {
			want = Event(k.Name)
		}
		if have := EventOf(proto.Clone(k.Body)); have != want {
			t.Errorf("%s.%s is the event %q, want %q", k.Noun, k.Name, have, want)
		}
	}
}

func TestStatesOfRecordsAndOfTheTableAreTheSame(t *testing.T) {
	for _, s := range []State{Unactivated, Active, Disabled} {
		if have := StateOf(&imagev1.Image{State: s.Record()}); have != s {
			t.Errorf("%s becomes %s", s, have)
		}
	}
}

func TestTheReadmeShowsTheLife(t *testing.T) {
	const readme, open, end = "../../README.md", "```mermaid\n", "```\n<!-- /life -->"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), open)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the README has no place for the picture")
	}
	want := before + open + Life.Mermaid(Unactivated) + end + after
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Fatal("the picture is not that of the table; go test ./internal/image -update writes it")
	}
}
