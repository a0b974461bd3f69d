package link

import "testing"

// A journal that was lost or set back says another thing under a number that was used.
func TestAReportIsNamedByWhatItSays(t *testing.T) {
	one, other := Report{Sequence: 7, Data: []byte("one")}, Report{Sequence: 7, Data: []byte("other")}
	if reportID("s", one) != reportID("s", one) || reportID("s", one) == reportID("s", other) {
		t.Errorf("%s, %s", reportID("s", one), reportID("s", other))
	}
}
