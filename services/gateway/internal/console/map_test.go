package console

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// many returns the squares of servers of four colours in which hardly any two neighbours are alike.
func many(n int) ([]mapped, []*shade) {
	shades := []*shade{{bar: bar{Word: "online"}}, {bar: bar{Word: "offline"}}, {bar: bar{Word: "late"}}, {bar: bar{
		Word: `"><script>alert(1)</script>`,
	}}}
	var all []mapped
	for i := range n {
		is := shades[(i*7+i/3)%len(shades)]
		is.Count++
		all = append(all, mapped{"prod", fmt.Sprintf("web-%05d.dc%d.example", i, i%3), is})
	}
	return all, shades
}

func TestAMapOfTenThousandServersIsSmallAndNamesEach(t *testing.T) {
	t.Parallel()
	all, shades := many(10_000)
	m := drawMap(all, shades)
	var shown strings.Builder
	err := templates.ExecuteTemplate(&shown, "page.html", &page{Parts: []part{{Map: m}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := shown.Len(); n > 300_000 {
		t.Errorf("the page has %d bytes", n)
	}
	if strings.Contains(shown.String(), "<script>alert") {
		t.Error("a word is markup")
	}
	var names []string
	last := ""
	for line := range strings.Lines(m.Names + "\n") {
		same, _ := strconv.ParseInt(line[:1], 36, 0)
		last = last[:same] + strings.TrimSuffix(line[1:], "\n")
		names = append(names, last)
	}
	if !slices.EqualFunc(names, all, func(name string, is mapped) bool { return name == is.name }) {
		t.Error("the names are not those of the servers in their order")
	}
}

// Every square has the colour of its server.
func TestSquaresAreWhereTheirServersAre(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 19, 20, 21, 777} {
		all, shades := many(n)
		m := drawMap(all, shades)
		drawn := make([]*shade, m.Columns*m.Rows)
		for _, is := range shades {
			for run := range strings.SplitSeq(strings.TrimPrefix(is.Path(), "M"), "M") {
				var x, y, length int
				if _, err := fmt.Sscanf(run, "%d %dh%d", &x, &y, &length); err != nil {
					continue // a shade without squares
				}
				for i := range length {
					drawn[y*m.Columns+x+i] = is
				}
			}
		}
		for i, is := range all {
			if drawn[i] != is.is {
				t.Errorf("of %d, square %d has another colour", n, i)
			}
		}
	}
}

// A trend takes changes back, and is not led astray by those of servers that are gone.
func TestATrendIsCountedBack(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	swaps := []swap{
		{end.Add(-day), "1.0.0", "2.0.0"}, {end.Add(-2 * day), "1.0.0", "2.0.0"}, {end.Add(-3 * day), "", "1.0.0"},
		{end.Add(-4 * day), "1.0.0", ""}, {end.Add(-5 * day), "0.9.0", "9.9.9"},
	}
	m := drawTrend(map[string]int{"2.0.0": 2, "1.0.0": 3}, swaps, end.Add(-30*day), end)
	counts := map[string]int{}
	for _, is := range m.Legend {
		counts[is.Word] = is.Count
	}
	if d := cmp.Diff(map[string]int{"2.0.0": 2, "1.0.0": 3, "0.9.0": 0}, counts); d != "" {
		t.Error(d)
	}
	if m.Most != 6 { // five servers, and the one that had 0.9.0
		t.Errorf("at most %d", m.Most)
	}
	if path := m.Legend[1].Path(); m.Legend[1].Word != "2.0.0" || strings.HasPrefix(path, "M0 ") ||
		!strings.Contains(path, "M590 ") {
		t.Errorf("the path of %s is %s", m.Legend[1].Word, path)
	}
	if drawTrend(nil, nil, end.Add(-day), end) != nil {
		t.Error("nothing is drawn")
	}
}

// One large map is drawn at a time; the next has its turn afterwards, or is refused at the end of its time.
func TestALargeMapWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	one := make(turn, 1)
	leave, err := one.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := one.take(over); fault.RefusalOf(err).GetCode() != code.Busy || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a second one is not refused as busy: %v", err)
	}
	next := make(chan error)
	go func() {
		_, err := one.take(t.Context())
		next <- err
	}()
	leave()
	if err := <-next; err != nil {
		t.Errorf("the next one: %v", err)
	}
}
