package metadata_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

func TestALaterLayerWinsKeyByKey(t *testing.T) {
	app := map[string]string{"a": "app", "b": "app", "c": "app"}
	agent := map[string]string{"b": "agent", "c": "agent"}
	own := map[string]string{"c": "", "d": "own"}
	before := maps.Clone(app)
	got := metadata.Merge(app, agent, nil, own)
	if diff := cmp.Diff(map[string]string{"a": "app", "b": "agent", "c": "", "d": "own"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, app); diff != "" {
		t.Errorf("a layer was changed: %s", diff)
	}
	if got := metadata.Merge(nil, map[string]string{}); got != nil {
		t.Errorf("nothing merged is %v", got)
	}
}

func TestADigestTellsMapsApart(t *testing.T) {
	seen := map[string]string{}
	for _, m := range []map[string]string{
		nil, {"a": ""}, {"a": "b"}, {"ab": ""}, {"a": "b", "c": "d"}, {"a": "b", "c": "e"}, {"a": "bc", "d": ""},
		{"a": "b\x00c\x00"},
	} {
		d := hex.EncodeToString(metadata.Digest(m))
		if other, ok := seen[d]; ok {
			t.Errorf("%v has the digest of %s", m, other)
		}
		seen[d] = fmt.Sprint(m)
	}
	if metadata.Digest(map[string]string{}) != nil {
		t.Error("no values have a digest")
	}
	// The digest never changes: facts and the journals of executors hold it.
	const want = "37664b19301f46515688d5a22cb9ee1852e0b6443e28c7f36340a13962f0c4f7"
	if got := hex.EncodeToString(metadata.Digest(map[string]string{"b": "2", "a": "1"})); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestAValueIsRefusedForWhatIsWrongWithIt(t *testing.T) {
	for value, want := range map[string]string{
		"a\x1b[2J":                               "it has the control character U+001B at byte 1",
		"a\xff":                                  "it has bytes that are not UTF-8",
		strings.Repeat("x", metadata.MaxValue+1): "at most 4096 bytes; it has more",
	} {
		err := metadata.Check(map[string]string{"k": value})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.10q: %v; want %s", value, err, want)
		}
	}
}

func TestWhatCannotBeWrittenIntoATemplateIsRefused(t *testing.T) {
	many := map[string]string{}
	for n := range metadata.MaxValues + 1 {
		many[fmt.Sprintf("k%d", n)] = ""
	}
	large := map[string]string{}
	for n := range metadata.MaxBytes/metadata.MaxValue + 1 {
		large[fmt.Sprintf("k%d", n)] = strings.Repeat("x", metadata.MaxValue)
	}
	for name, c := range map[string]struct {
		m  map[string]string
		ok bool
	}{
		"none":             {nil, true},
		"names":            {map[string]string{"level": "info", "Max_2": "ü", "pem": "a\n\tb"}, true},
		"an empty name":    {map[string]string{"": "x"}, false},
		"a dash":           {map[string]string{"log-level": "x"}, false},
		"a dot":            {map[string]string{"log.level": "x"}, false},
		"a digit first":    {map[string]string{"2nd": "x"}, false},
		"a long name":      {map[string]string{strings.Repeat("a", 64): "x"}, false},
		"a control":        {map[string]string{"a": "\x1b[0m"}, false},
		"a zero byte":      {map[string]string{"a": "\x00"}, false},
		"not text":         {map[string]string{"a": "\xff"}, false},
		"a large value":    {map[string]string{"a": strings.Repeat("x", metadata.MaxValue+1)}, false},
		"many":             {many, false},
		"large altogether": {large, false},
	} {
		err := metadata.Check(c.m)
		if (err == nil) != c.ok || err != nil && fault.RefusalOf(err).GetCode() != code.BadMetadata {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
}

func TestASecretIsKeptSealedAndOpensUnderItsName(t *testing.T) {
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", metadata.MaxValue)
	m := map[string]string{"level": "info", "password": key.Seal("password", "hunter2"), "pem": key.Seal("pem", large)}
	if err := metadata.Check(m); err != nil {
		t.Errorf("a large secret: %v", err)
	}
	if err := metadata.CheckSealed(key, m); err != nil {
		t.Error(err)
	}
	have, err := metadata.Open(key, m)
	if diff := cmp.Diff(map[string]string{"password": "hunter2", "pem": large}, have); diff != "" || err != nil {
		t.Error(err, diff)
	}
	moved := map[string]string{"other": m["password"]}
	if err := metadata.CheckSealed(key, moved); fault.RefusalOf(err).GetCode() != code.BadMetadata {
		t.Errorf("under another name: %v", err)
	}
	if err := metadata.CheckSealed(nil, m); fault.RefusalOf(err).GetCode() != code.BadMetadata {
		t.Errorf("without a key: %v", err)
	}
	if _, err := metadata.Open(nil, m); err == nil {
		t.Error("opened without a key")
	}
	if none, err := metadata.Open(nil, map[string]string{"level": "info"}); none != nil || err != nil {
		t.Errorf("%v, %v of no secrets", none, err)
	}
}

func TestASecretDoesNotBecomeAValueInClear(t *testing.T) {
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	sealed, again := key.Seal("a", "1"), key.Seal("a", "2")
	for name, c := range map[string]struct {
		layers []map[string]string
		ok     bool
	}{
		"a new secret":           {[]map[string]string{{"a": sealed}, {"a": again}}, true},
		"in clear":               {[]map[string]string{{"a": sealed}, {"a": "2"}}, false},
		"in clear further above": {[]map[string]string{{"a": sealed}, nil, {"b": "x"}, {"a": ""}}, false},
		"from clear to secret":   {[]map[string]string{{"a": "1"}, {"a": sealed}}, true},
		"another name":           {[]map[string]string{{"a": sealed}, {"b": "1"}}, true},
	} {
		err := metadata.CheckKeptSecret(c.layers...)
		if (err == nil) != c.ok || err != nil && fault.RefusalOf(err).GetCode() != code.SecretInClear {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
}
