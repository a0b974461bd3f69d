package env

import (
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

func TestAWindowIsPrintedAsItWasRead(t *testing.T) {
	for text, want := range map[string]string{
		"Mon-Fri 22:00-04:00 Europe/Berlin": "Mon,Tue,Wed,Thu,Fri 22:00-04:00 Europe/Berlin",
		"sat,sun 00:00-24:00":               "Sat,Sun 00:00-24:00",
		"Fri-Mon 1:30-02:00 UTC":            "Fri,Sat,Sun,Mon 01:30-02:00 UTC",
		"22:00-22:00":                       "22:00-22:00",
	} {
		w, err := parseWindow(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if have := windowsText([]*environmentv1.Window{w}); have != want {
			t.Errorf("%q is printed as %q, want %q", text, have, want)
		}
	}
}

func TestAWindowOfDaysIsPrintedWithItsLength(t *testing.T) {
	w := &environmentv1.Window{Days: []uint32{6}, Minutes: 48 * 60}
	if have := windowsText([]*environmentv1.Window{w}); have != "Sat 00:00-00:00 (2880 minutes)" {
		t.Errorf("printed as %q", have)
	}
}

func TestWhatIsNoWindowIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "Mon", "Mon-Fry 22:00-04:00", "22:00", "25:00-26:00", "24:00-25:00", "22:0-23:00", "22:00-23:60",
		"Mon 22:00-23:00 Europe/Berlin now",
	} {
		if w, err := parseWindow(text); err == nil {
			t.Errorf("%q is read as %v", text, w)
		}
	}
}
