package console

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// An address that another person made puts no flag and no other server into the command that a click copies.
func TestNoValueOfAnActIsAFlagOrSeveralServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, query, wrong string }{
		{"hold", "server=all&agent=nginx&until=8h", "server"},
		{"hold", "server=env%3Dprod&agent=nginx&until=8h", "server"},
		{"hold", "server=a,b&agent=nginx&until=8h", "server"},
		{"hold", "server=web-1&agent=--site&until=8h", "agent"},
		{"hold", "server=web-1&agent=nginx&until=8h&why=--on%3Dall", "why"},
		{"accept", "fingerprint=--all-matching%3Dos%3Dlinux", "fingerprint"},
		{"accept", "fingerprint=AAAA&environment=-h", "environment"},
		{"accept", "fingerprint=%E2%80%AE--all", "fingerprint"}, // behind a character that is not shown
		{"label", "server=-h&labels=a%3Db", "server"},
		{"label", "server=web-1&labels=a%3Db+--env+prod", "labels"},
		{"hold", "server=Web-1.example&agent=nginx&until=8h&why=it+is+-+new", ""},
		{"label", "server=0195d5a0-0000&labels=rack%3Da1+spare-", ""},
	} {
		r := httptest.NewRequest("GET", "/console/act/"+c.what+"?"+c.query, nil)
		r.SetPathValue("what", c.what)
		_, _, err := (&visit{Request: r}).act()
		query, _ := url.QueryUnescape(c.query)
		if c.wrong == "" && err != nil || c.wrong != "" &&
			(!fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.wrong+" ")) {
			t.Errorf("%s with %q: %v, want %q to be refused", c.what, query, err, c.wrong)
		}
	}
}

func TestNoValueOfAPlanIsAFlag(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"verb=remove&on=a&agent=--config%3Dx", "verb=undo&of=-h", "verb=up&on=a&agent=beacon&why=--yes",
	} {
		if _, command, err := asked(asking("/console/plan?" + query)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s is %q: %v", query, command, err)
		}
	}
}
