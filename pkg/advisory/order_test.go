package advisory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/advisory"
)

// Each line is in the order of its ecosystem, the lowest version first.
func TestVersionsHaveTheOrderOfTheirEcosystem(t *testing.T) {
	for ecosystem, line := range map[string]string{
		"Go":     "0.0.0-20230101000000-abcdef 0.16.0 0.17.0-rc.1 0.17.0 0.17.1 1.0.0 10.0.0",
		"npm":    "1.0.0-alpha 1.0.0-alpha.1 1.0.0-beta 1.0.0 1.2.10",
		"PyPI":   "1.0.dev1 1.0a1.dev1 1.0a1 1.0b2 1.0rc1 1.0 1.0.post1.dev2 1.0.post1 1.0.1 1.10 1!0.1",
		"Debian": "1.0~rc1-1 1.0-1 1.0-1+deb12u1 1.0-1.1 1.0-2 1.0a-1 1.0.1-1 1.9 1.10 1:0.1",
		"Ubuntu": "3.0.2-0ubuntu1.10 3.0.2-0ubuntu1.15 3.0.10",
		"rpm":    "1.0~rc1-1 1.0-1.el9 1.0-2.el9 1.0^git1-1 1.0a-1 1.0.1-1 1.10-1 1:0.1-1",
	} {
		all := strings.Fields(line)
		for i, a := range all {
			for j, b := range all {
				have, sure := advisory.Compare(ecosystem, a, b)
				if want := compareInt(i, j); have != want || !sure {
					t.Errorf("%s: %s and %s: %d, sure %v; want %d", ecosystem, a, b, have, sure, want)
				}
			}
		}
	}
}

func compareInt(i, j int) int { return slices.Compare([]int{i}, []int{j}) }

func TestVersionsThatDifferInWritingOnlyAreEqual(t *testing.T) {
	for _, c := range [][3]string{
		{"PyPI", "1.0", "1.0.0"}, {"PyPI", "1.0-alpha.1", "1.0a1"}, {"PyPI", "v1.0", "1.0+local"},
		{"Go", "1.0.0", "1.0.0+incompatible"}, {"Debian", "0:1.0-1", "1.0-1"}, {"rpm", "1.0", "1.0-7"},
		{"rpm", "1.01", "1_1"},
	} {
		if have, sure := advisory.Compare(c[0], c[1], c[2]); have != 0 || !sure {
			t.Errorf("%v: %d, sure %v", c, have, sure)
		}
	}
}

// Without a known order only versions of numbers and dots are certain.
func TestAnUnknownOrderIsUncertain(t *testing.T) {
	for _, c := range []struct {
		ecosystem, a, b string
		want            int
		sure            bool
	}{
		{"Maven", "1.0", "1.0", 0, true}, {"Maven", "1.9", "1.10", -1, true},
		{"", "2.0", "1.0", 1, true}, {"Maven", "2.0-M1", "1.9", 1, false},
		{"npm", "one", "two", -1, false},
	} {
		if have, sure := advisory.Compare(c.ecosystem, c.a, c.b); have != c.want || sure != c.sure {
			t.Errorf("%+v: %d, %v", c, have, sure)
		}
	}
}

func FuzzComparisonsAreAntisymmetric(f *testing.F) {
	f.Add("1.0~rc1-1", "1:2^a")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, ecosystem := range []string{"Go", "PyPI", "Debian", "rpm", ""} {
			x, _ := advisory.Compare(ecosystem, a, b)
			if y, _ := advisory.Compare(ecosystem, b, a); x != -y {
				t.Errorf("%s: %q and %q: %d and %d", ecosystem, a, b, x, y)
			}
		}
	})
}
