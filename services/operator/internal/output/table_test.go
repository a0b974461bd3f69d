package output

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/listing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

type row = *serverv1.Server

var testTable = listing.Listing[row]{
	Name: row.GetName,
	Columns: []listing.Column[row]{
		listing.Col("NAME", row.GetName),
		listing.Since("SINCE", row.GetSince),
		listing.Wide("ID", row.GetId),
	},
}

func servers() []row {
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }
	return []row{{Name: "web-2", Id: "b", Since: at(time.Minute)}, {Name: "web-1", Id: "a", Since: at(3 * time.Hour)}}
}

func printer(out *strings.Builder, format string) *Printer {
	return &Printer{Out: out, Now: func() time.Time { return noon }, Format: format}
}

func TestAListIsPrintedInEveryFormat(t *testing.T) {
	for format, want := range map[string]string{
		FormatTable: "NAME   SINCE\nweb-2  1m\nweb-1  3h\n",
		FormatWide: "NAME   SINCE                 ID\n" +
			"web-2  2026-01-31T11:59:00Z  b\nweb-1  2026-01-31T09:00:00Z  a\n",
		FormatName: "web-2\nweb-1\n",
		FormatJSONL: `{"id":"b","name":"web-2","since":"2026-01-31T11:59:00Z"}` + "\n" +
			`{"id":"a","name":"web-1","since":"2026-01-31T09:00:00Z"}` + "\n",
	} {
		var out strings.Builder
		rows := servers()
		whole := &registryv1.ListServersResponse{Servers: rows}
		if err := Show(printer(&out, format), testTable, whole, rows); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%s (-want +have):\n%s", format, d)
		}
	}
}

func TestRowsAreSortedByTheTimeOfAnAgeAlsoInJSON(t *testing.T) {
	var out strings.Builder
	p := printer(&out, FormatJSON)
	p.Sort = "since"
	rows := servers()
	if err := Show(p, testTable, &registryv1.ListServersResponse{Servers: rows}, rows); err != nil {
		t.Fatal(err)
	}
	if first, second := strings.Index(out.String(), "web-1"), strings.Index(out.String(), "web-2"); first > second {
		t.Errorf("web-1 is older, and comes second:\n%s", &out)
	}
}

func TestAnEmptyListIsAnEmptyArray(t *testing.T) {
	var out strings.Builder
	if err := Show(printer(&out, FormatJSON), testTable, &registryv1.ListServersResponse{}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"servers": []`) {
		t.Errorf("have %s", &out)
	}
}

func TestAnUnknownColumnIsRefusedWithTheKnownOnes(t *testing.T) {
	p := printer(&strings.Builder{}, FormatTable)
	p.Columns = []string{"colour"}
	err := CheckColumns(p, testTable)
	if want := `--columns: unknown column "colour" (want name, since, id)`; err == nil || err.Error() != want {
		t.Errorf("have %v, want %s", err, want)
	}
}

func TestControlCharactersNeverReachTheTerminal(t *testing.T) {
	if got, want := listing.Cell("a\x1b[31m\u009b\r\nb"), "a[31m b"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	if got := listing.Cell(""); got != "-" {
		t.Errorf("an empty cell is %q, want a dash", got)
	}
}

func TestAListHasOneLineForEachRow(t *testing.T) {
	wide := listing.Listing[row]{Name: row.GetName, Columns: []listing.Column[row]{
		listing.Col("NAME", row.GetName), listing.Col("LABELS", func(row) string { return "rack=abc,size=large" }),
		listing.Col("ENV", func(row) string { return "" }), listing.Col("NEXT", func(row) string { return "see it" }),
		listing.Col("REASON", func(r row) string { return "the agent of " + r.GetName() + " ended" }),
	}}
	for width, want := range map[int]string{
		0: "NAME   LABELS               ENV  NEXT    REASON\n" +
			"web-2  rack=abc,size=large  -    see it  the agent of web-2 ended\n" +
			"web-1  rack=abc,size=large  -    see it  the agent of web-1 ended\n",
		50: "NAME   LABELS             NEXT    REASON\n" +
			"web-2  rack=abc,size=la…  see it  the agent of we…\n" +
			"web-1  rack=abc,size=la…  see it  the agent of we…\n",
		30: "NAME   LABELS           NEXT\nweb-2  rack=abc,size=…  see it\nweb-1  rack=abc,size=…  see it\n",
		10: "NAME\nweb-2\nweb-1\n",
	} {
		var out strings.Builder
		p := printer(&out, FormatTable)
		p.Width = func() int { return width }
		if err := Show(p, wide, nil, servers()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%d columns (-want +have):\n%s", width, d)
		}
	}
}

func TestANameIsCutInTheMiddleBeforeTheStateIsLeftOut(t *testing.T) {
	long := listing.Listing[row]{Name: row.GetName, Columns: []listing.Column[row]{
		listing.Col("SERVER", row.GetName), listing.Col("AGENT", func(row) string { return "web" }),
		listing.Col("FOUND", func(row) string { return "1.0.0" }),
		listing.Col("STATE", func(row) string { return "converged" }),
		listing.Col("HEALTH", func(row) string { return "good" }),
		listing.Col("NEXT", func(row) string { return "garrison task show 2b300f51" }),
	}}
	const want = "SERVER                       AGENT  STATE      NEXT\n" +
		"host-of-the-l…f-racks-00209  web    converged  garrison task show 2b300f51\n"
	var out strings.Builder
	p := printer(&out, FormatTable)
	p.Width = func() int { return 74 }
	if err := Show(p, long, nil, []row{{Name: "host-of-the-long-row-of-racks-00209"}}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

func TestATableFitsIntoItsTerminal(t *testing.T) {
	wide := listing.Listing[row]{Name: row.GetName, Tells: true, Columns: []listing.Column[row]{
		listing.Col("NAME", row.GetName), listing.Col("LABELS", func(row) string { return "rack=abc,size=large" }),
		listing.Col("NEXT", func(row) string { return "" }), listing.Col("ENV", func(row) string { return "" }),
		listing.Col("REASON", func(r row) string { return "the agent of " + r.GetName() + " ended: unknown flag" }),
	}}
	for width, want := range map[int]string{
		0: "NAME   LABELS               NEXT  ENV  REASON\n" +
			"web-2  rack=abc,size=large  -     -    the agent of web-2 ended: unknown flag\n" +
			"web-1  rack=abc,size=large  -     -    the agent of web-1 ended: unknown flag\n",
		70: "NAME   LABELS               REASON\n" +
			"web-2  rack=abc,size=large  the agent of web-2 ended: unknown flag\n" +
			"web-1  rack=abc,size=large  the agent of web-1 ended: unknown flag\n",
		50: "NAME   LABELS\n" +
			"web-2  rack=abc,size=large\n    reason: the agent of web-2 ended: unknown flag\n" +
			"web-1  rack=abc,size=large\n    reason: the agent of web-1 ended: unknown flag\n",
		20: "NAME\n" +
			"web-2\n    labels:\n    rack=abc,size=large\n    reason: the\n" +
			"    agent of web-2\n    ended: unknown\n    flag\n" +
			"web-1\n    labels:\n    rack=abc,size=large\n    reason: the\n" +
			"    agent of web-1\n    ended: unknown\n    flag\n",
		40: "NAME   LABELS\n" +
			"web-2  rack=abc,size=large\n    reason: the agent of web-2 ended:\n    unknown flag\n" +
			"web-1  rack=abc,size=large\n    reason: the agent of web-1 ended:\n    unknown flag\n",
	} {
		var out strings.Builder
		p := printer(&out, FormatTable)
		p.Width = func() int { return width }
		if err := Show(p, wide, nil, servers()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%d columns (-want +have):\n%s", width, d)
		}
	}
}

func TestThePageOfAnObjectIsBrokenBetweenWords(t *testing.T) {
	one := listing.Listing[row]{Name: row.GetName, Columns: []listing.Column[row]{
		listing.Col("NAME", row.GetName),
		listing.Col("REASON", func(row) string { return "ended: unknown flag, see --help" }),
	}}
	var out strings.Builder
	p := printer(&out, FormatTable)
	p.Width = func() int { return 30 }
	want := "NAME    web-2\nREASON  ended: unknown flag,\n        see --help\n"
	if err := ShowOne(p, p.View(), one, servers()[0]); err != nil || out.String() != want {
		t.Errorf("have %q and %v, want %q", out.String(), err, want)
	}
}
