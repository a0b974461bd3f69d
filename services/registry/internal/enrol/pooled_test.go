package enrol

import (
	"net/netip"
	"strings"
	"testing"

	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

func TestAnAddressIsInARangeOnlyWhenTheBusKnowsIt(t *testing.T) {
	at := netip.MustParseAddr
	for _, c := range []struct {
		ranges []string
		from   netip.Addr
		want   bool
	}{
		{nil, netip.Addr{}, true},
		{nil, at("10.1.2.3"), true},
		{[]string{"10.0.0.0/8"}, at("10.1.2.3"), true},
		{[]string{"10.0.0.0/8"}, at("11.1.2.3"), false},
		{[]string{"10.0.0.0/8"}, netip.Addr{}, false},
		{[]string{"10.0.0.0/8", "fd00::/8"}, at("fd00::1"), true},
		{[]string{"nonsense"}, at("10.1.2.3"), false},
	} {
		if have := Within(c.ranges, c.from); have != c.want {
			t.Errorf("%v in %v: %v", c.from, c.ranges, have)
		}
	}
}

func TestAServerGetsANameThatIsFree(t *testing.T) {
	const id = "0197b5a0-0000-5000-8000-000000000001"
	host := tokenv1.NameFrom_NAME_FROM_HOSTNAME
	for _, c := range []struct {
		from  tokenv1.NameFrom
		host  string
		taken string
		want  string
	}{
		{host, "web-1", "", "web-1"},
		{host, "Web_1.Example.", "", "web-1.example"},
		{host, "web-1", "web-1 web-1-2", "web-1-3"},
		{host, "", "", "server-0197b5a0"},
		{host, "..", "", "server-0197b5a0"},
		{host, id, "", "server-0197b5a0"},
		{host, "localhost", "", "server-0197b5a0"},
		{host, "Localhost.localdomain", "", "server-0197b5a0"},
		{host, "localhost6.localdomain6", "", "server-0197b5a0"},
		{host, "(none)", "", "server-0197b5a0"},
		{host, "localhosts-1", "", "localhosts-1"},
		{host, strings.Repeat("a", 300), "", strings.Repeat("a", 50)},
		{tokenv1.NameFrom_NAME_FROM_ID, "web-1", "", "server-0197b5a0"},
	} {
		have := NameOf(c.from, c.host, id, func(name string) bool {
			return strings.Contains(" "+c.taken+" ", " "+name+" ")
		})
		if have != c.want {
			t.Errorf("%v %q beside %q: %q, want %q", c.from, c.host, c.taken, have, c.want)
		}
	}
	have := NameOf(host, "web", id, func(name string) bool { return name != "web-0197b5a0" })
	if have != "web-0197b5a0" {
		t.Errorf("after many: %q", have)
	}
}
