package selection

import "testing"

func TestALabelThatNoServerHasIsReadAsTheNearestFieldOrLabel(t *testing.T) {
	for text, want := range map[string]string{"evn=prod": "env=prod", "rak=a": "rack=a", "rack=z": "", "zebra=x": ""} {
		on, err := Parse([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if have := Nearest(on, []string{"rack", "site"}); have != want {
			t.Errorf("nearest to --on %s is %q; want %q", text, have, want)
		}
	}
}
