package metadata_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

var keys = rapid.SampledFrom([]string{"a", "b", "c"})

// tree draws any JSON value; short keys make layers meet.
func tree(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
	case kind == 0:
		return nil
	case kind == 1:
		return rapid.Bool().Draw(t, "bool")
	case kind == 2:
		return rapid.IntRange(-3, 3).Draw(t, "number")
	case kind == 3 || depth == 0:
		return rapid.StringMatching(`[xyz<&"]{0,3}`).Draw(t, "text")
	case kind == 4:
		return []any{tree(t, depth-1)}
	}
	return object(t, depth)
}

func object(t *rapid.T, depth int) map[string]any {
	out := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		out[keys.Draw(t, "key")] = tree(t, depth-1)
	}
	return out
}

func layerOf(t interface{ Fatal(...any) }, o map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range o {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if out[k], err = metadata.FromJSON(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

var layers = rapid.Custom(func(t *rapid.T) map[string]string { return layerOf(t, object(t, 3)) })

// patched is RFC 7396 (JSON merge patch) word for word, an independent statement of what Merge does.
func patched(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if have, ok := target.(map[string]any); ok {
		maps.Copy(out, have)
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = patched(out[k], v)
		}
	}
	return out
}

func TestMergingLayersIsPatchingThemOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(layers, 0, 4).Draw(t, "layers")
		before := make([]map[string]string, len(all))
		var want any = map[string]any{}
		for n, l := range all {
			before[n] = maps.Clone(l)
			want = patched(want, any(metadata.Object(l)))
		}
		got := metadata.Merge(all...)
		if diff := cmp.Diff(want, any(metadata.Object(got))); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(before, all); diff != "" {
			t.Fatalf("a layer was changed: %s", diff)
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		rest := append([]map[string]string{metadata.Merge(all[:cut]...)}, all[cut:]...)
		if diff := cmp.Diff(got, metadata.Merge(rest...)); diff != "" {
			t.Fatalf("merging that stops after %d layers: %s", cut, diff)
		}
		if err := metadata.Check(got); err != nil {
			t.Fatal(err)
		}
	})
}

func TestADigestIsOfTheValuesAndNotOfTheirSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := layers.Draw(t, "layer")
		again := map[string]string{}
		for _, k := range slices.Backward(slices.Sorted(maps.Keys(m))) { // another order, and with white space
			text, err := json.MarshalIndent(metadata.Decode(m[k]), " ", "\t")
			if err != nil {
				t.Fatal(err)
			}
			if again[k], err = metadata.FromJSON(string(text)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatal(diff)
		}
		other := layers.Draw(t, "other")
		if same := bytes.Equal(metadata.Digest(m), metadata.Digest(other)); same != maps.Equal(m, other) {
			t.Fatalf("%v and %v have the same digest: %v", m, other, same)
		}
	})
}

func TestTheThreeActionsOfALayer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, set, below := layers.Draw(t, "have"), layers.Draw(t, "set"), layers.Draw(t, "below")
		kept := maps.Clone(have)
		update := metadata.Change{Set: set}
		next := update.Apply(have)
		if diff := cmp.Diff(kept, have); diff != "" {
			t.Fatalf("the layer was changed: %s", diff)
		}
		if diff := cmp.Diff(next, update.Apply(next)); diff != "" {
			t.Fatalf("an update that is repeated changes more: %s", diff)
		}
		// What is seen of an updated layer alone is what is seen of the layer and the update.
		if diff := cmp.Diff(metadata.Merge(have, set), metadata.Merge(next)); diff != "" {
			t.Fatal(diff)
		}
		replace := metadata.Change{Set: set, Replace: true}.Apply(have)
		if diff := cmp.Diff(metadata.Merge(below, set), metadata.Merge(below, replace)); diff != "" {
			t.Fatal(diff)
		}
		// Updates and deletions of different names commute.
		name := keys.Draw(t, "name")
		del := metadata.Change{Unset: []string{name}}
		if _, both := set[name]; !both {
			if diff := cmp.Diff(del.Apply(next), update.Apply(del.Apply(have))); diff != "" {
				t.Fatalf("the order counts: %s", diff)
			}
		}
		if _, left := del.Apply(next)[name]; left {
			t.Fatalf("%s is left", name)
		}
	})
}
