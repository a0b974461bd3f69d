package output

import (
	"strings"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// The keys and the kinds of the values are promised: scripts read them.
func TestFlatRowsHaveTheKeysOfTheColumns(t *testing.T) {
	counted := Listing[row]{Name: row.GetName, Columns: []Column[row]{
		Col("NAME", row.GetName), Since("SINCE", row.GetSince), Wide("SERVER-ID", row.GetId),
		Col("LEFT OUT", func(row) string { return "7" }).Numeric(),
		Col("SERVERS", func(row) string { return "" }).Numeric(),
		Col("VERSION", func(row) string { return "2" }),
	}}
	for format, want := range map[string]string{
		FormatRows: `{"left_out":7,"name":"web-2","server_id":"b","servers":0,"since":"2026-01-31T11:59:00Z",` +
			`"version":"2"}` + "\n",
		"template={{.name}} {{.server_id}}": "web-2 b\n",
	} {
		var out strings.Builder
		rows := servers()[:1]
		whole := &registryv1.ListServersResponse{Servers: rows}
		if err := Show(printer(&out, format), counted, whole, rows); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s: have %q, want %q", format, out.String(), want)
		}
		out.Reset()
		if err := ShowOne(printer(&out, format), View{At: noon}, counted, rows[0]); err != nil || out.String() != want {
			t.Errorf("one in %s: have %q and %v, want %q", format, out.String(), err, want)
		}
	}
}

func TestATemplateThatNamesNoColumnIsRefusedWithTheKeys(t *testing.T) {
	p := printer(&strings.Builder{}, "template={{.colour}}")
	err := Show(p, listing, &registryv1.ListServersResponse{}, servers())
	if err == nil || !strings.Contains(err.Error(), "(keys: id, name, since)") {
		t.Errorf("have %v", err)
	}
	for _, format := range []string{"xml", "template={{.name"} {
		if CheckFormat(format) == nil {
			t.Errorf("%s is accepted", format)
		}
	}
}
