package link

import "testing"

// A journal that was lost or set back says another thing under a number that was used.
func TestAReportIsNamedByWhatItSays(t *testing.T) {
	one := reportID("s", Report{Sequence: 7, Data: []byte("one")})
	again := reportID("s", Report{Sequence: 7, Data: []byte("one")})
	other := reportID("s", Report{Sequence: 7, Data: []byte("other")})
	if one != again || one == other {
		t.Errorf("%s, %s again, %s for another", one, again, other)
	}
}
