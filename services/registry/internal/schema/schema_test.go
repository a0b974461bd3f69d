package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/services/registry/internal/schema"
)

const example = `{
  "type": "object", "required": ["level"], "additionalProperties": false,
  "properties": {
    "level": {"enum": ["info", "debug"]},
    "password": {"type": "string", "minLength": 12, "pattern": "^[a-z]+$"},
    "address": {"format": "ipv4"},
    "log": {"$ref": "#/$defs/log"}
  },
  "$defs": {"log": {"type": "object", "required": ["path"], "properties": {
    "path": {"type": "string"}, "keep": {"type": "integer", "maximum": 9}
  }}}
}`

func TestEachProblemHasItsPathAndNoSecret(t *testing.T) {
	s, err := schema.Compile(example)
	if err != nil {
		t.Fatal(err)
	}
	for values, want := range map[string][]string{
		`{"level": "info", "log": {"path": "/a", "keep": 3}}`: nil,
		`{}`: {"level: is required and missing"},
		`{"level": "x", "password": "HUNTER2", "address": "1.2", "more": 1}`: {
			"address: '1.2' is not valid ipv4: expected four decimals", "level: value must be one of 'info', 'debug'",
			"more: is not a property of the schema", "password: the secret breaks minLength",
			"password: the secret breaks pattern",
		},
		`{"level": "info", "log": {"keep": "3"}}`: {
			"log.keep: got string, want integer", "log.path: is required and missing",
		},
		`{"level": "info", "log": {"path": "/a", "keep": 10}}`: {"log.keep: maximum: got 10, want 9"},
	} {
		text, err := metadata.FromJSON(values)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		held := metadata.Decode(text).(map[string]any)
		for _, p := range s.Check(held, func(name string) bool { return name == "password" }) {
			got = append(got, strings.Join(p.Path, ".")+": "+p.What)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", values, diff)
		}
	}
}

func TestASchemaThatCannotBeUsedIsRefused(t *testing.T) {
	bomb := `"d0": {"type": "string"}`
	for n := range 20 {
		bomb += fmt.Sprintf(`, "d%d": {"anyOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, n+1, n, n)
	}
	for name, text := range map[string]string{
		"empty": "", "no JSON": "{", "no object": "true", "a wrong keyword": `{"type": "nothing"}`,
		"size": `{"title": "` + strings.Repeat("x", schema.MaxBytes) + `"}`, "a wrong pattern": `{"pattern": "("}`,
		"remote":           `{"$ref": "https://example.org/schema.json"}`,
		"a file":           `{"$ref": "file:///etc/passwd"}`,
		"another dialect":  `{"$schema": "https://example.org/dialect"}`,
		"an id":            `{"$id": "https://example.org/x", "type": "object"}`,
		"a cycle":          `{"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}`,
		"itself":           `{"properties": {"a": {"$ref": "#"}}}`,
		"nowhere":          `{"$ref": "#/$defs/none"}`,
		"a dynamic ref":    `{"$dynamicRef": "#x"}`,
		"references twice": `{"$ref": "#/$defs/d20", "$defs": {` + bomb + `}}`,
	} {
		if _, err := schema.Compile(text); fault.RefusalOf(err).GetCode() != code.BadSchema {
			t.Errorf("%s: %v", name, err)
		}
	}
}
