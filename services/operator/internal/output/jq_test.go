package output

import (
	"context"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/listing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func filtered(t *testing.T, format, program string) (*strings.Builder, *Printer) {
	t.Helper()
	f, err := ParseFilter(program)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := printer(&out, format)
	p.Filter = f
	if err := p.CheckFilter(); err != nil {
		t.Fatal(err)
	}
	return &out, p
}

// A filter is what people know from jq and gh: an array of flat rows, one object, or with -o json that document.
func TestAFilterPrintsWhatItMakesOfTheData(t *testing.T) {
	for _, c := range []struct{ format, program, want string }{
		{FormatTable, ".[].name", "web-2\nweb-1\n"},
		{FormatTable, "length", "2\n"},
		{FormatTable, `map(select(.name == "web-1")) | .[0] | {id, name}`, `{"id":"a","name":"web-1"}` + "\n"},
		{FormatTable, "sort_by(.name)[] | [.name, .since] | @tsv", "web-1\t2026-01-31T09:00:00Z\n" +
			"web-2\t2026-01-31T11:59:00Z\n"},
		{FormatJSON, ".servers | map(.id) | join(\",\")", "b,a\n"},
		{FormatJSON, ".servers[0].nothing", "null\n"},
		{FormatTable, "12345678901234567890", "12345678901234567890\n"},
		{FormatTable, "empty", ""},
	} {
		out, p := filtered(t, c.format, c.program)
		rows := servers()
		if err := Show(p, testTable, &registryv1.ListServersResponse{Servers: rows}, rows); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s of %s: have %q, want %q", c.program, c.format, out.String(), c.want)
		}
	}
	out, p := filtered(t, FormatTable, ".name")
	if err := ShowOne(p, listing.View{At: noon}, testTable, servers()[0]); err != nil || out.String() != "web-2\n" {
		t.Errorf("one: have %q and %v", out, err)
	}
}

func TestAWrongFilterIsRefused(t *testing.T) {
	for program, want := range map[string]string{
		".[": "ends too early", ".name ]": `unexpected "]"`, "nothing(.)": "function not defined: nothing/1",
		"$ENV.HOME | nosuch": "function not defined",
	} {
		if _, err := ParseFilter(program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %q", program, err, want)
		}
	}
	out, p := filtered(t, FormatTable, ".[].name.first")
	err := Show(p, testTable, &registryv1.ListServersResponse{}, servers())
	if err == nil || !strings.Contains(err.Error(), "--jq: ") || !strings.Contains(err.Error(), "Try: --jq .") {
		t.Errorf("have %v and %q", err, out)
	}
	p.Format = FormatYAML
	if err := p.CheckFilter(); err == nil {
		t.Error("a filter of YAML is accepted")
	}
	if err := CheckFormat("jsonpath={.items}"); err == nil || !strings.Contains(err.Error(), "--jq") {
		t.Errorf("jsonpath: have %v", err)
	}
}

// The environment may hold secrets, and a program comes from a command line that others wrote.
func TestAFilterReadsNoEnvironment(t *testing.T) {
	t.Setenv("GARRISON_TEST_SECRET", "hush")
	out, p := filtered(t, FormatTable, "env.GARRISON_TEST_SECRET, $ENV.GARRISON_TEST_SECRET")
	err := Show(p, testTable, &registryv1.ListServersResponse{}, servers())
	if err != nil || out.String() != "null\nnull\n" {
		t.Errorf("have %q and %v", out, err)
	}
}

func TestAnEndlessFilterEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, p := filtered(t, FormatTable, "def f: f; f")
	p.Context = ctx
	if err := Show(p, testTable, &registryv1.ListServersResponse{}, servers()); err == nil {
		t.Error("it has ended without an error")
	}
}
