package visible_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

const hostile = "a\x1b[2J\a\u009b31m\u061c\u202e\u2028\u2029\u2066\x7f\r\tb\nc é日"

func TestTextDropsAndWritersEscapeWhatSteers(t *testing.T) {
	t.Parallel()
	if got, want := visible.Text(hostile), "a[2J31m\tb\nc é日"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got, want := visible.Line(hostile+"\n"), "a[2J31m b; c é日"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	var out strings.Builder
	n, err := fmt.Fprintln(visible.Writer(&out), hostile)
	if err != nil || n != len(hostile)+1 || strings.ContainsFunc(out.String(), visible.Steers) {
		t.Errorf("%d, %v: %q", n, err, &out)
	}
	if got, want := visible.Text("a\x9b31m"), "a\ufffd31m"; got != want {
		t.Errorf("a broken byte: %q, want %q", got, want)
	}
}

func TestJSONIsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	data = visible.JSON(data)
	var got string
	err = json.Unmarshal(data, &got)
	if err != nil || got != hostile || strings.ContainsFunc(string(data), visible.Steers) {
		t.Errorf("%q, %v: %s", got, err, data)
	}
}
