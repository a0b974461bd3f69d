package version_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/version"
)

func TestWhichExecutorIsTooOld(t *testing.T) {
	for _, c := range []struct {
		have, least string
		want        bool
	}{
		{"v1.4.2", "", false}, {"v1.4.2", "1.4.2", false}, {"1.4.2", "1.4.3", true}, {"v1.10.0", "1.9.0", false},
		{"v1.5.0-rc.1", "1.5.0", true}, {"v1.5.0-3-g275d6af", "1.5.0", false},
		{"v1.5.0-3-g275d6af-dirty", "1.5.1", true},
		{"v1.5.0-dirty", "1.5.0", false}, {"unstamped", "9.0.0", false}, {"275d6af", "9.0.0", false},
		{"2756789", "9.0.0", false}, {"", "9.0.0", false},
		{"v1.0.0", "nonsense", true},
	} {
		if got := version.Before(c.have, c.least); got != c.want {
			t.Errorf("Before(%q, %q) is %v", c.have, c.least, got)
		}
	}
}
