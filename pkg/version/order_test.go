package version_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/version"
)

func TestVersionsHaveTheDocumentedOrder(t *testing.T) {
	want := []string{
		"master", "release-20130401-g0bd6d2c", "master-20160527T165825Z-g020d169",
		"0-20170428", "0.0-20170428", "0.0.2",
		"0.0.3-master-20170713T010344Z-g360442e", "0.0.3", "0.0.3vnext", "0.0.3vrelease-20130401-g0bd6d2c",
		"0.0.3vrelease-20160428-20160428T180942Z-gc110a12", "0.0.3vmaster-20170713T010344Z-g360442e", "0.0.4-rc.1",
		"0.0.4", "1.0.0-master-20160527T165825Z-g020d169", "1.0.0-master-20170712T235425Z-g020d169", "1.0.0", "1.2.0",
		"1.2", "1.2.3.4", "1.2.3.10", "1.10.0", "99999999999999999999.1",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, version.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("order\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// versions draws texts of few parts, so that many pairs share some of them.
func versions() *rapid.Generator[string] {
	parts := []string{
		"0", "1", "2", "10", "01", ".", ".", ".", "-", "+", "v", "rc", "master", "T", "Z", "g0", "20130401",
		"20130401T101112Z", "20170713T010344Z", "99999999999999999999", "_", "~", "a", "B",
	}
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 8).Draw(t, "parts"), "")
		}),
		rapid.StringMatching(`[0-2]\.[0-2]\.[0-2](-(rc|a)(\.[0-9])?)?(\+[ab])?`),
		rapid.StringMatching(`v?[0-2](\.[0-2])?(\.[0-2])?(vrelease|-master)?(-201[67]0428)?`),
	)
}

func TestTheOrderOfVersionsIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := versions().Draw(t, "a"), versions().Draw(t, "b"), versions().Draw(t, "c")
		if version.Compare(a, a) != 0 || version.Compare(a, b) != -version.Compare(b, a) {
			t.Fatalf("%q and %q: %d and %d", a, b, version.Compare(a, b), version.Compare(b, a))
		}
		if version.Compare(a, b) <= 0 && version.Compare(b, c) <= 0 && version.Compare(a, c) > 0 {
			t.Fatalf("%q, %q, %q: not transitive", a, b, c)
		}
		x, errX := semver.StrictNewVersion(a)
		y, errY := semver.StrictNewVersion(b)
		switch {
		case errX == nil && errY == nil:
			if version.Compare(a, b) != x.Compare(y) {
				t.Fatalf("%q and %q: %d, want %d", a, b, version.Compare(a, b), x.Compare(y))
			}
		case a != b && version.Compare(a, b) == 0:
			t.Fatalf("%q and %q are in the same place", a, b)
		}
	})
}
