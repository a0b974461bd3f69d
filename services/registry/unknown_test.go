package registry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// A program of a newer version may choose an image in a way that this registry does not
// know. To it the choice looks empty, which means the newest.
func TestAnIntentWithUnknownPartsIsRefusedNamingThem(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.image("web", "2.0.0", "release")
	newer := upgrade("web", "1.0.0", on("one"))
	choice := &intentv1.ImageChoice{}
	choice.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), "tag"))
	newer.GetUpgrade().Image = choice
	arm := protowire.AppendBytes(protowire.AppendTag(nil, 90, protowire.BytesType), nil)
	for _, c := range []struct {
		name, verb, json, want string
		intent                 *intentv1.Intent
		arm                    []byte
	}{
		{name: "an arm of a choice", verb: "upgrade", intent: newer, want: "upgrade.image: unknown field 9"},
		{name: "an arm of the intent", verb: "upgrade", arm: arm, want: "unknown field 90"},
		{
			name: "a word of JSON", verb: "upgrade",
			json: `{"upgrade":{"agent":"web","on":{"all":true},"slowly":true}}`, want: "slowly",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, data, header := ident.New(), c.arm, map[string][]string{}
			if c.intent != nil {
				data, _ = proto.Marshal(c.intent)
			}
			if c.json != "" {
				data, header = []byte(c.json), map[string][]string{"Content-Type": {"application/json"}}
			}
			m := bus.Message{
				Subject:   topology.IntentSubject(c.verb, "alice", id),
				Delivered: 1,
				Data:      data,
				Header:    header,
			}
			if err := s.r.intents.Handle(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			r := s.outcome(id).GetRefusal()
			if r.GetCode() != "UNKNOWN_FIELD" && c.json == "" || !strings.Contains(r.GetMessage(), c.want) ||
				!strings.Contains(r.GetMessage(), "this registry is version") {
				t.Errorf("%v; want a refusal with %q and the version", r, c.want)
			}
		})
	}
	if have := s.instance("web"); have.Generation != 1 {
		t.Errorf("generation %d; want nothing changed", have.Generation)
	}
}
