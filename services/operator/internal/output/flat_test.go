package output

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/listing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// The keys and the kinds of the values are promised: scripts read them.
func TestFlatRowsHaveTheKeysOfTheColumns(t *testing.T) {
	counted := listing.Listing[row]{Name: row.GetName, Columns: []listing.Column[row]{
		listing.Col("NAME", row.GetName), listing.Since("SINCE", row.GetSince), listing.Wide("SERVER-ID", row.GetId),
		listing.Col("LEFT OUT", func(row) string { return "7" }).Numeric(),
		listing.Col("SERVERS", func(row) string { return "" }).Numeric(),
		listing.Col("VERSION", func(row) string { return "2" }),
	}}
	want := `{"left_out":7,"name":"web-2","server_id":"b","servers":0,"since":"2026-01-31T11:59:00Z","version":"2"}` +
		"\n"
	rows := servers()[:1]
	out, p := filtered(t, FormatTable, ".[]")
	err := Show(p, counted, &registryv1.ListServersResponse{Servers: rows}, rows)
	if err != nil || out.String() != want {
		t.Errorf("have %q and %v, want %q", out, err, want)
	}
	out, p = filtered(t, FormatTable, ".")
	if err := ShowOne(p, listing.View{At: noon}, counted, rows[0]); err != nil || out.String() != want {
		t.Errorf("one: have %q and %v, want %q", out, err, want)
	}
}

func TestAFormatOfAnotherProgramIsRefusedWithTheFilter(t *testing.T) {
	for format, want := range map[string]string{"xml": "want table", "template={{.name}}": "--jq", "rows": "--jq"} {
		if err := CheckFormat(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %q", format, err, want)
		}
	}
}
