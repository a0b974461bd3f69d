package declare_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

func read(t *testing.T, text string) *declare.Set {
	t.Helper()
	set, err := declare.Read([]declare.File{{Name: "a.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// live returns records as a plan left them.
func live(before declare.Live, plan *declare.Plan) declare.Live {
	out := declare.Live{}
	for _, k := range declare.Kinds {
		out[k] = map[string]proto.Message{}
		for name, m := range before[k] {
			out[k][name] = m
		}
	}
	for _, c := range plan.Changes {
		if c.Action == declare.Delete {
			delete(out[c.Kind], c.Name)
			continue
		}
		out[c.Kind][c.Name] = c.Next
	}
	return out
}

const fleet = `format: 1
applications:
  site:
    description: The site
    metadata:
      level: info
      port: 8080
agents:
  agents_core:
    kind: daemon
    application: site
    dependencies: [base]
  base: {kind: files}
environments:
  prod:
    channel: release
    defaults:
      base: {image: {version: 1.0.0}, reach: all, metadata: {level: info}}
      agents_core:
servers:
  4QENZE2:
    id: 4c4c4544-0051-4510-804e-b4c04f5a4532
    environment: prod
    labels: {rack.row: a}
`

func TestWhatIsWrittenIsRead(t *testing.T) {
	plan := declare.Compare(read(t, fleet), declare.Live{}, declare.Options{})
	if len(plan.Changes) != 7 || len(plan.Problems) > 0 {
		t.Fatalf("%+v", plan)
	}
	order := ""
	for _, c := range plan.Changes {
		order += c.String() + ", "
	}
	if want := "application site, agent base, agent agents_core, environment prod, " +
		"default prod/agents_core, default prod/base, server 4QENZE2, "; order != want {
		t.Errorf("order %s", order)
	}
	all := live(declare.Live{}, plan)
	app := all[declare.Applications]["site"].(*applicationv1.Application)
	if app.Metadata["port"] != "8080" {
		t.Errorf("%v", app)
	}
	data, err := declare.Write(&declare.Set{Objects: declare.Objects(all)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := declare.Write(&declare.Set{Objects: declare.Objects(live(declare.Live{},
		declare.Compare(read(t, string(data)), declare.Live{}, declare.Options{})))})
	if err != nil || string(again) != string(data) {
		t.Errorf("%v\n%s\nthen\n%s", err, data, again)
	}
	if plan := declare.Compare(read(t, string(data)), all, declare.Options{}); len(plan.Changes) > 0 {
		t.Errorf("the second comparison changes %+v", plan.Changes)
	}
}

// The windows of an environment are declared; a freeze is of a moment, so that no file has it and no apply ends it.
func TestAFrozenEnvironmentIsWrittenWithItsWindows(t *testing.T) {
	e := &environmentv1.Environment{
		Name:    "prod",
		Windows: []*environmentv1.Window{{Days: []uint32{1, 5}, FromMinute: 60, Minutes: 90, Zone: "Europe/Berlin"}},
		Freezes: []*environmentv1.Freeze{{Until: timestamppb.New(time.Unix(1000, 0)), Reason: "year end"}},
	}
	have := declare.Live{declare.Environments: {"prod": e}}
	data, err := declare.Write(&declare.Set{Objects: declare.Objects(have)})
	if err != nil || strings.Contains(string(data), "year end") {
		t.Fatalf("written: %s, %v", data, err)
	}
	set := read(t, strings.ReplaceAll(string(data), "minutes: 90", "minutes: 120"))
	next := live(have, declare.Compare(set, have, declare.Options{}))[declare.Environments]["prod"]
	want := proto.CloneOf(e)
	want.Windows[0].Minutes = 120
	got := proto.Clone(next).(*environmentv1.Environment)
	if got.Owners = nil; !proto.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAnApplyChangesOnlyWhatItsOwnerDeclares(t *testing.T) {
	env := &environmentv1.Environment{Description: "by hand", Metadata: map[string]string{"hand": "1", "level": "info"}}
	have := declare.Live{declare.Environments: {"prod": env}}
	first := declare.Compare(read(t, "format: 1\nenvironments: {prod: {metadata: {level: debug, size: 5}}}"), have,
		declare.Options{})
	have = live(have, first)
	got := have[declare.Environments]["prod"].(*environmentv1.Environment)
	if got.Description != "by hand" || got.Metadata["hand"] != "1" || got.Metadata["level"] != "debug" {
		t.Errorf("%v", got)
	}
	// What the file no longer has goes; what was set by hand since stays.
	got.Metadata["size"] = "6"
	second := declare.Compare(read(t, "format: 1\nenvironments: {prod: {channel: beta}}"), have, declare.Options{})
	got = live(have, second)[declare.Environments]["prod"].(*environmentv1.Environment)
	if _, has := got.Metadata["level"]; has || got.Metadata["size"] != "6" || got.Metadata["hand"] != "1" {
		t.Errorf("%v", got)
	}
	if len(second.Kept) != 1 || !strings.Contains(second.Kept[0], "metadata.size") {
		t.Errorf("kept %q", second.Kept)
	}
	if third := declare.Compare(read(t, "format: 1\nenvironments: {prod: {channel: beta}}"), live(have, second),
		declare.Options{}); len(third.Changes) > 0 {
		t.Errorf("%+v", third.Changes)
	}
}

func TestADefaultIsAnObjectOfItsOwn(t *testing.T) {
	const with = "format: 1\nenvironments: {prod: {defaults: {web: {image: {version: 1.0.0}, reach: all}}}}"
	first := declare.Compare(read(t, with), nil, declare.Options{})
	have := live(nil, first)
	d := have[declare.Defaults]["prod/web"].(*environmentv1.Default)
	if d.Image.GetVersion() != "1.0.0" || d.Reach != environmentv1.Reach_REACH_ALL || len(d.Owners) != 1 {
		t.Fatalf("%v", d)
	}
	// By hand the version moves; the file says it again.
	d.Image.By = &intentv1.ImageChoice_Version{Version: "1.1.0"}
	second := declare.Compare(read(t, with), have, declare.Options{})
	if len(second.Changes) != 1 || second.Changes[0].Fields[0].Note == "" ||
		second.Changes[0].Fields[0].Before != "{version: 1.1.0}" {
		t.Errorf("%+v", second.Changes)
	}
	have = live(have, second)
	without := read(t, "format: 1\nenvironments: {prod: {}}")
	if plan := declare.Compare(without, have, declare.Options{}); len(plan.Changes) > 0 || len(plan.Dropped) != 1 {
		t.Errorf("without prune: %+v", plan)
	}
	pruned := declare.Compare(without, have, declare.Options{Prune: true})
	if len(pruned.Changes) != 1 || pruned.Changes[0].Action != declare.Delete {
		t.Errorf("with prune: %+v", pruned.Changes)
	}
}

func TestTwoOwnersDoNotOverwriteEachOther(t *testing.T) {
	site := "format: 1\nowner: site\nenvironments: {prod: {description: ours, metadata: {a: 1}}}"
	team := "format: 1\nowner: team\nenvironments: {prod: {description: theirs, metadata: {b: 2}}}"
	have := live(nil, declare.Compare(read(t, site), nil, declare.Options{}))
	plan := declare.Compare(read(t, team), have, declare.Options{})
	if len(plan.Problems) != 1 || len(plan.Changes) != 0 || plan.Problems[0].At.Line != 3 {
		t.Fatalf("%+v", plan)
	}
	have = live(have, declare.Compare(read(t, team), have, declare.Options{Force: true}))
	e := have[declare.Environments]["prod"].(*environmentv1.Environment)
	if e.Description != "theirs" || len(e.Owners) != 2 {
		t.Errorf("%v", e)
	}
	// The first owner lost the field, so it refuses from then on, and removes nothing of the other's.
	if plan = declare.Compare(read(t, site), have, declare.Options{}); len(plan.Problems) != 1 {
		t.Errorf("%+v", plan)
	}
	have = live(have, declare.Compare(read(t, "format: 1\nowner: site\nagents: {x: {kind: files}}"), have,
		declare.Options{Prune: true}))
	e = have[declare.Environments]["prod"].(*environmentv1.Environment)
	if e == nil || e.Description != "theirs" || e.Metadata["a"] != "" || e.Metadata["b"] != "2" || len(e.Owners) != 1 {
		t.Errorf("%v", e)
	}
}

func TestPruneReleasesWhatAnotherOwnerDeclaresToo(t *testing.T) {
	const base = "format: 1\nowner: %s\nagents: {base: {kind: files}}"
	have := live(nil, declare.Compare(read(t, fmt.Sprintf(base, "site")), nil, declare.Options{}))
	have = live(have, declare.Compare(read(t, fmt.Sprintf(base, "team")), have, declare.Options{}))
	rest := read(t, "format: 1\nowner: team\nenvironments: {prod: {}}")
	have = live(have, declare.Compare(rest, have, declare.Options{}))
	plan := declare.Compare(rest, have, declare.Options{Prune: true})
	if len(plan.Changes) != 1 || plan.Changes[0].Action != declare.Release || plan.Differs() {
		t.Fatalf("%+v", plan)
	}
	have = live(have, plan)
	if a := have[declare.Agents]["base"].(*agentv1.Agent); len(a.GetOwners()) != 1 || a.GetOwners()[0].Name != "site" {
		t.Errorf("%v", a)
	}
}

func TestPruneDeletesOnlyWhatTheOwnerDeclared(t *testing.T) {
	have := live(declare.Live{declare.Agents: {"hand": &agentv1.Agent{Kind: agentv1.Kind_KIND_FILES}}},
		declare.Compare(read(t, fleet), nil, declare.Options{}))
	rest := read(t, "format: 1\napplications: {site: {}}")
	if plan := declare.Compare(rest, have, declare.Options{}); len(plan.Dropped) != 6 || len(plan.Visible()) != 1 {
		t.Errorf("without --prune: %+v", plan)
	}
	plan := declare.Compare(rest, have, declare.Options{Prune: true})
	var got []string
	for _, c := range plan.Changes {
		got = append(got, string(c.Action)+" "+c.String())
	}
	want := "update application site,update server 4QENZE2,delete default prod/agents_core,delete default prod/base," +
		"delete environment prod,delete agent agents_core,delete agent base"
	if strings.Join(got, ",") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, ","), want)
	}
}

func TestWhatCannotChangeIsAProblem(t *testing.T) {
	have := declare.Live{
		declare.Agents:  {"x": &agentv1.Agent{Kind: agentv1.Kind_KIND_FILES}},
		declare.Servers: {"s": &serverv1.Server{Id: "4c4c4544-0051-4510-804e-b4c04f5a4532", Cell: "main"}},
	}
	plan := declare.Compare(read(t, "format: 1\nagents: {x: {kind: daemon}}\nservers: {s: {cell: other}}"), have,
		declare.Options{})
	if len(plan.Problems) != 2 || !plan.Problems[0].Fixed || len(plan.Changes) != 0 {
		t.Errorf("%+v", plan)
	}
}

func TestAWrongFileIsRefusedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an unknown key": {
			"format: 1\nagents:\n  x:\n    kinds: daemon",
			"a.yaml:4: agent \"x\" has no key \"kinds\"",
		},
		"an unknown section": {"format: 1\nagent: {}", "a.yaml:2: the file has no key \"agent\""},
		"no format":          {"agents: {}", "a.yaml:1: the key format is missing"},
		"a newer format":     {"format: 2", "a.yaml:1: format \"2\" is not known"},
		"a key twice":        {"format: 1\nagents:\n  x: {}\n  x: {}", "a.yaml:4: agents has the key \"x\" twice"},
		"an object twice":    {"format: 1\nagents: {x: {}}\n---\nformat: 1\nagents: {x: {}}", "declared twice"},
		"a wrong name":       {"format: 1\nagents: {X: {}}", "a.yaml:2: agent \"X\" is not a name"},
		"an unknown word": {
			"format: 1\nagents: {x: {kind: demon}}",
			"a.yaml:2: agent \"x\" kind: \"demon\" is not known",
		},
		"a list for a map": {"format: 1\nagents: {x: {metadata: [a]}}", "is not a mapping"},
		"a map for a text": {"format: 1\nagents: {x: {description: {a: b}}}", "is not a single value"},
		"null for a text":  {"format: 1\nagents: {x: {description: }}", "is not a single value"},
		"a wrong number":   {"format: 1\nagents: {x: {tier: -1}}", "\"-1\" is not a value of the kind uint32"},
		"a default twice":  {"format: 1\nenvironments: {x: {defaults: {a: {}, a: {}}}}", "the key \"a\" twice"},
		"defaults twice":   {"format: 1\nenvironments: {x: {defaults: {}, defaults: {}}}", "\"defaults\" twice"},
		"defaults as list": {"format: 1\nenvironments: {x: {defaults: [a]}}", "is not a mapping"},
		"defaults apart":   {"format: 1\ndefaults: {}", "no key \"defaults\""},
		"two choices": {
			"format: 1\nenvironments: {x: {defaults: {a: {image: {version: 1.0.0, channel: c}}}}}",
			"has both version and channel",
		},
		"an alias":                  {"format: 1\nagents: {x: &a {}, y: *a}", "anchors and aliases"},
		"a merge key":               {"format: 1\nagents: {x: {<<: {kind: files}}}", "merge key"},
		"a tag of JSON for a field": {"format: 1\nagents: {x: {description: !json 5}}", "it is for values of metadata"},
		"no JSON":                   {"format: 1\nagents: {x: {metadata: {a: !json x}}}", "not valid JSON"},
		"JSON with a list as a key": {
			"format: 1\nagents: {x: {metadata: {a: {[b]: c}}}}",
			"a key is not a single value",
		},
		"JSON with a key twice": {"format: 1\nagents: {x: {metadata: {a: {b: 1, b: 2}}}}", "twice"},
		"a tag":                 {"format: 1\nagents: !!map {x: {}}", "tag"},
		"a deep file": {
			"format: 1\nagents: " + strings.Repeat("[", 40) + strings.Repeat("]", 40),
			"more than 16 levels",
		},
		"no YAML":              {"format: 1\n  x: :", "a.yaml"},
		"two owners":           {"format: 1\nowner: a\n---\nformat: 1\nowner: b", "one owner at a time"},
		"nothing":              {"format: 1", "declare nothing"},
		"an alias bomb":        {"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", "anchors and aliases"},
		"a text, not a key":    {"agents", "is not a mapping"},
		"an owner, not a name": {"format: 1\nowner: [a]", "is not a name"},
	} {
		_, err := declare.Read([]declare.File{{Name: "a.yaml", Data: []byte(c.text)}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
	_, err := declare.Read([]declare.File{{Name: "a.yaml", Data: []byte("format: 1\nagents: {x: {kinds: daemon}}")}})
	if r := fault.RefusalOf(err); r.GetCode() != code.BadRecipe || r.GetNearest() != "kind" {
		t.Errorf("%v", r)
	}
}

func TestMetadataThatIsJSONIsYAMLInAFile(t *testing.T) {
	const file = `format: 1
environments:
  e:
    metadata:
      count: !json 12345678901234567890
      hosts:
        - a
        - "5"
        - 1.5
        - null
        - {}
      log:
        keep: 5
        old: true
      none: !json null
      text: "5"
`
	set := read(t, file)
	values := set.Objects[0].Record.(*environmentv1.Environment).Metadata
	for name, want := range map[string]string{
		"count": `12345678901234567890`, "hosts": `["a","5",1.5,null,{}]`,
		"log": `{"keep":5,"old":true}`, "none": "null",
	} {
		if value, err := metadata.FromJSON(want); err != nil || values[name] != value {
			t.Errorf("%s is %q, want %q (%v)", name, values[name], value, err)
		}
	}
	if values["text"] != "5" {
		t.Errorf("text is %q", values["text"])
	}
	if again, err := declare.Write(set); err != nil || string(again) != file {
		t.Errorf("it is written as\n%s\nwant\n%s(%v)", again, file, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(fleet)
	f.Add("format: 1\nenvironments: {e: {metadata: {a: {b: [1, x, null, ~, 0x1F, 2001-01-01]}, c: !json true}}}")
	f.Add("format: 1\nagents: {x: &a {}, y: *a}")
	f.Add("format: 1\nenvironments: {e: {metadata: {a: \"x\\ny\", b: '#', c: null, d: ' '}}}")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := declare.Read([]declare.File{{Name: "f", Data: []byte(text)}})
		if err != nil {
			return
		}
		data, err := declare.Write(set)
		if err != nil {
			t.Fatal(err)
		}
		again, err := declare.Read([]declare.File{{Name: "g", Data: data}})
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if same, err := declare.Write(again); err != nil || string(same) != string(data) {
			t.Fatalf("%v\n%q\n%q", err, data, same)
		}
	})
}
