package metadata_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

func nested(t *testing.T, text string) string {
	t.Helper()
	v, err := metadata.FromJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestAJSONTextHasOneForm(t *testing.T) {
	for text, want := range map[string]string{
		`"plain"`: "plain", `""`: "", ` 1.0 `: "1", `1e3`: "1000", `-0.0`: "0", `-0`: "0", `0.50`: "0.5",
		`1e21`:                 "1e+21",
		`18446744073709551615`: "18446744073709551615", `true`: "true", `null`: "null", `[ ]`: "[]",
		`{"b": [1, null], "a": {"<": "\u0041"}}`: `{"a":{"<":"A"},"b":[1,null]}`,
	} {
		v := nested(t, text)
		if got := metadata.Text(v); got != want {
			t.Errorf("%s is %s; want %s", text, got, want)
		}
		if err := metadata.Check(map[string]string{"a": v}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		again, err := json.Marshal(metadata.Decode(v))
		if got := nested(t, string(again)); err != nil || got != v {
			t.Errorf("%s becomes %s", v, got)
		}
	}
	// The encoding never changes: facts hold it.
	if got := nested(t, `{"b":1,"a":"x"}`); got != `garrison:json:1:{"a":"x","b":1}` {
		t.Error(got)
	}
}

func TestJSONThatIsNoValueIsRefused(t *testing.T) {
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", metadata.MaxDepth+1) + strings.Repeat("]", metadata.MaxDepth+1)
	for name, text := range map[string]string{
		"nothing": "", "half": `{"a":`, "two": "1 2", "a comment": "1 // x", "a key twice": `{"a":1,"a":2}`,
		"an empty key": `{"":1}`, "a long key": `{"` + strings.Repeat("k", 129) + `":1}`, "a number": "1e999",
		"a control": `{"a":"\u0000"}`, "depth": deep, "size": `["` + strings.Repeat("x", metadata.MaxNested) + `"]`,
		"a secret inside": `{"password":"` + key.Seal("password", "x") + `"}`, "a mark inside": `["garrison:json:1:1"]`,
		"much": strings.Repeat(" ", 1<<20), "a bare word": "hunter2",
	} {
		_, err := metadata.FromJSON(text)
		if fault.RefusalOf(err).GetCode() != code.BadMetadata || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	for _, v := range []string{`{"b":1, "a":2}`, `{`, `"text"`, `1.0`, ``} {
		err := metadata.Check(map[string]string{"a": "garrison:json:1:" + v})
		if fault.RefusalOf(err).GetCode() != code.BadMetadata {
			t.Errorf("%s is not refused: %v", v, err)
		}
	}
}

func TestAChangeOfALayer(t *testing.T) {
	have := map[string]string{"level": "info", "log": nested(t, `{"file":{"path":"/a","keep":3},"json":true}`)}
	for name, c := range map[string]struct {
		change metadata.Change
		want   map[string]string // of Text; nil is a refusal
	}{
		"update merges objects": {
			metadata.Change{Set: map[string]string{"log": nested(t, `{"file":{"keep":5}}`)}},
			map[string]string{"level": "info", "log": `{"file":{"keep":5,"path":"/a"},"json":true}`},
		},
		"and replaces anything else": {
			metadata.Change{Set: map[string]string{"log": "off"}}, map[string]string{"level": "info", "log": "off"},
		},
		"a null stays": {
			metadata.Change{Set: map[string]string{"log": nested(t, `{"file":null}`), "level": nested(t, "null")}},
			map[string]string{"level": "null", "log": `{"file":null,"json":true}`},
		},
		"delete takes a name, a key, and what is not there": {
			metadata.Change{Unset: []string{"level", "log.file.path", "log.none.x", "none", "log.json.x"}},
			map[string]string{"log": `{"file":{"keep":3},"json":true}`},
		},
		"delete and set replace a nested value": {
			metadata.Change{Unset: []string{"log"}, Set: map[string]string{"log": nested(t, `{"x":1}`)}},
			map[string]string{"level": "info", "log": `{"x":1}`},
		},
		"replace": {
			metadata.Change{Replace: true, Set: map[string]string{"a": "b"}}, map[string]string{"a": "b"},
		},
		"replace by nothing":  {metadata.Change{Replace: true}, map[string]string{}},
		"replace and delete":  {metadata.Change{Replace: true, Unset: []string{"level"}}, nil},
		"both set and unset":  {metadata.Change{Unset: []string{"a"}, Set: map[string]string{"a": "b"}}, nil},
		"a path with no name": {metadata.Change{Unset: []string{".a"}}, nil},
		"a path with no key":  {metadata.Change{Unset: []string{"a..b"}}, nil},
		"a path with many keys": {
			metadata.Change{Unset: []string{"a" + strings.Repeat(".b", metadata.MaxDepth+1)}}, nil,
		},
	} {
		err := c.change.Check()
		if c.want == nil {
			if fault.RefusalOf(err).GetCode() != code.BadMetadata {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		got := map[string]string{}
		for k, v := range c.change.Apply(have) {
			got[k] = metadata.Text(v)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	missing := metadata.Change{Unset: []string{"level", "log.file.path", "log.none", "level.x", "none"}}.Missing(have)
	if diff := cmp.Diff([]string{"log.none", "level.x", "none"}, missing); diff != "" {
		t.Error(diff)
	}
}

func TestTheLevelOfAValueIsTheLayerThatDecidesIt(t *testing.T) {
	app := map[string]string{"a": nested(t, `{"b":{"c":1},"d":[1]}`), "t": "x"}
	env := map[string]string{"a": nested(t, `{"b":{"e":2},"n":null}`)}
	own := map[string]string{"a": nested(t, `{"d":5}`), "s": "text"}
	for path, want := range map[string]int{
		"t": 0, "a": 2, "a.b": 1, "a.b.c": 0, "a.b.e": 1, "a.d": 2, "a.d.0": 2, "a.n": 1, "s.x": 2,
		"none": -1, "a.none": -1,
	} {
		if got := metadata.Level(strings.Split(path, "."), app, env, own); got != want {
			t.Errorf("%s is of layer %d; want %d", path, got, want)
		}
	}
}
