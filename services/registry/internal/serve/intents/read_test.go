package intents

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// A program of a newer version may choose an image in a way that this registry does not know. To it the choice looks
// empty, which means the newest.
func TestAnIntentWithUnknownPartsIsRefusedNamingThem(t *testing.T) {
	t.Parallel()
	newer := recordstest.Upgrade("web", "", recordstest.Everywhere())
	newer.GetUpgrade().Image = &intentv1.ImageChoice{}
	newer.GetUpgrade().Image.ProtoReflect().SetUnknown(
		protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), "tag"))
	choice, err := proto.Marshal(newer)
	if err != nil {
		t.Fatal(err)
	}
	arm := protowire.AppendBytes(protowire.AppendTag(nil, 90, protowire.BytesType), nil)
	const word = `{"upgrade":{"agent":"web","on":{"all":true},"slowly":true}}`
	w := recordstest.New(t)
	for name, c := range map[string]struct {
		data []byte
		json bool
		code string
		want string
	}{
		"an arm of a choice":   {choice, false, code.UnknownField, "upgrade.image: unknown field 9"},
		"an arm of the intent": {arm, false, code.UnknownField, "unknown field 90"},
		"a word of JSON":       {[]byte(word), true, code.Malformed, "slowly"},
	} {
		m := bus.Message{Data: c.data}
		if c.json {
			m.Header = map[string][]string{"Content-Type": {"application/json"}}
		}
		r := intent.Decide(w.View, read(topology.IntentAddress{Verb: "upgrade", Actor: "alice", ID: "i"}, m)).Refusal
		if r.GetCode() != c.code || !strings.Contains(r.GetMessage(), c.want) ||
			!strings.Contains(r.GetMessage(), "this registry is version") {
			t.Errorf("%s: %v; want a refusal with %q and the version", name, r, c.want)
		}
	}
}
