package intents

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

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

func TestAPlanForEveryAgentContinuesAfterARefusal(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	w.Server("one", "")
	for _, agent := range []string{"db", "web"} {
		w.Agent(agent)
		w.Image(agent, "1.0.0")
		w.Accept(topology.VerbInstall, recordstest.Install(agent, recordstest.On("one")))
	}
	w.Image("web", "2.0.0")
	w.Fact(ledger.Image, "db-1.0.0", &imagev1.Disabled{Reason: "leaks"})
	api := NewAPI(w.Records, NewLookup(w.Records, nil))
	r := recordstest.Call(w, api.Plan, &registryv1.PlanIntentRequest{
		Intent: recordstest.Upgrade("", "", recordstest.Everywhere()), EveryAgent: true,
	})
	if len(r.Plans) != 2 || r.Plans[0].Refusal.GetCode() != code.NotActive || r.Plans[1].Changed != 1 {
		t.Errorf("%v; want db refused and web changed", r.Plans)
	}
	every := func(agent string, all bool, but ...string) *registryv1.PlanIntentRequest {
		up := recordstest.Upgrade(agent, "", recordstest.Everywhere())
		return &registryv1.PlanIntentRequest{Intent: up, EveryAgent: all, Exclude: but}
	}
	for name, c := range map[string]struct {
		q    *registryv1.PlanIntentRequest
		code string
	}{
		"without db":      {every("", true, "db"), ""},
		"without another": {every("", true, "dc"), code.UnknownAgent},
		"of one":          {every("web", false, "db"), code.Malformed},
		"that names one":  {every("web", true), code.Malformed},
	} {
		if have := recordstest.Code(w, api.Plan, c.q); have != c.code {
			t.Errorf("%s: %q; want %q", name, have, c.code)
		}
	}
}
