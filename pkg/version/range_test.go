package version_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/version"
)

func TestWhichVersionsARangeHas(t *testing.T) {
	for _, c := range []struct {
		text, version string
		want          bool
	}{
		{">=1.5.0", "1.5.0", true}, {">=1.5.0", "1.4.9", false}, {">1.5.0", "1.5.0", false},
		{">=1.5.0 <2.0.0", "1.9.9", true}, {">=1.5.0,<2.0.0", "2.0.0", false}, {">= 1.5.0 < 2.0.0", "1.9.9", true},
		{"<2.0.0", "2.0.0-rc.1", true}, {"1.2.3", "1.2.3", true}, {"=1.2.3", "1.2.4", false},
		{"<=1.2.3", "1.2.3", true},
		{"1.0.0 || >=2.0.0", "1.0.0", true}, {"1.0.0||>=2.0.0", "1.5.0", false}, {"1.0.0 || >=2.0.0", "3.0.0", true},
		{">=1.10.0", "1.9.0", false}, {">=2", "2.0.1", true}, {"<0.0.4", "0.0.3vrelease-20130401-g0bd6d2c", true},
	} {
		r, err := version.ParseRange(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Has(c.version) != c.want {
			t.Errorf("%q has %s: %v, want %v", c.text, c.version, !c.want, c.want)
		}
	}
	if !(version.Range{}).Has("1.0.0") || !version.In("1.0.0", nil) {
		t.Error("no range has not every version")
	}
	if version.In("1.0.0", []string{"<1.0.0", "bad range"}) || !version.In("1.0.0", []string{"<1.0.0", "1.0.0"}) {
		t.Error("In does not take the alternatives")
	}
}

func TestWhatIsNoRangeIsRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "||", "1.0.0||", ">=", "latest", "~1.0.0", ">=1.0.0 and", "=>1.0.0", "1.0.0/2", "1.x", ">=1.X",
		"1.2.x", "1.x.2", "x.1",
		strings.Repeat("1.0.0 ", 17), strings.Repeat("1", 257),
	} {
		if _, err := version.ParseRange(text); err == nil {
			t.Errorf("%q is taken for a range", text)
		}
	}
}

// A range between two versions has exactly what lies between them in the order of versions.
func TestARangeFollowsTheOrderOfVersions(t *testing.T) {
	versions := rapid.StringMatching(`[0-3]\.[0-3]\.[0-3](-rc\.[0-2])?`)
	rapid.Check(t, func(t *rapid.T) {
		low, high, v := versions.Draw(t, "low"), versions.Draw(t, "high"), versions.Draw(t, "version")
		r, err := version.ParseRange(">=" + low + " <" + high)
		if err != nil {
			t.Fatal(err)
		}
		want := version.Compare(low, v) <= 0 && version.Compare(v, high) < 0
		if r.Has(v) != want {
			t.Errorf(">=%s <%s has %s: %v", low, high, v, !want)
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{">=1.5.0 <2.0.0 || 3.0.0", "||", "> 1", "1.0.0,2.0.0"} {
		f.Add(seed, "1.0.0")
	}
	f.Fuzz(func(t *testing.T, text, v string) {
		if r, err := version.ParseRange(text); err == nil {
			r.Has(v)
		}
	})
}
