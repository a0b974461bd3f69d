package output

import (
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

func TestTheColumnsOfAListKeepTheirWidthsFromPartToPart(t *testing.T) {
	var b strings.Builder
	p := &Printer{Out: &b, Now: time.Now, Format: FormatTable}
	columns := []listing.Column[[2]string]{
		listing.Col("NAME", func(r [2]string) string { return r[0] }),
		listing.Col("STATE", func(r [2]string) string { return r[1] }),
	}
	parts := NewParts(p, p.View(), listing.Listing[[2]string]{Tells: true, Columns: columns})
	for _, rows := range [][][2]string{{{"a-long-name", "good"}}, {{"b", "bad"}}, nil} {
		if err := parts.Show(rows); err != nil {
			t.Fatal(err)
		}
	}
	want := "NAME         STATE\na-long-name  good\nb            bad\n"
	if b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}

func TestAListThatIsSortedOrOneDocumentIsNotPrintedInParts(t *testing.T) {
	for format, want := range map[string]bool{FormatTable: true, FormatJSONL: true, FormatJSON: false} {
		if have := (&Printer{Format: format}).InParts(); have != want {
			t.Errorf("%s in parts: %v; want %v", format, have, want)
		}
		if (&Printer{Format: format, Sort: "name"}).InParts() {
			t.Errorf("%s is sorted in parts", format)
		}
	}
}

func TestANarrowListShowsAColumnThatIsEmptyInItsFirstPart(t *testing.T) {
	var b strings.Builder
	p := &Printer{Out: &b, Now: time.Now, Format: FormatTable, Width: func() int { return 14 }}
	columns := []listing.Column[[2]string]{
		listing.Col("NAME", func(r [2]string) string { return r[0] }),
		listing.Col("REASON", func(r [2]string) string { return r[1] }),
	}
	parts := NewParts(p, p.View(), listing.Listing[[2]string]{Tells: true, Columns: columns})
	for _, rows := range [][][2]string{{{"a-long-name", ""}}, {{"b", "bad"}}} {
		if err := parts.Show(rows); err != nil {
			t.Fatal(err)
		}
	}
	if want := "NAME\na-long-name\nb\n    reason:\n    bad\n"; b.String() != want {
		t.Errorf("printed\n%swant\n%s", b.String(), want)
	}
}
