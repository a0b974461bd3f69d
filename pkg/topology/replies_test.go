package topology

import (
	"strings"
	"testing"
)

// A user that may answer is let publish to the reply subject of each message that it receives. One that could send
// itself a message would choose that subject.
func TestWhoMayAnswerReceivesNothingThatItMayPublish(t *testing.T) {
	for name, p := range map[string]Permissions{"server": NodePermissions, "guest": GuestPermissions} {
		if !p.Answers {
			continue
		}
		for _, out := range p.Publish {
			for _, in := range p.Subscribe {
				if meet(out, in) {
					t.Errorf("a %s may publish %s and receives %s", name, out, in)
				}
			}
		}
	}
}

func TestPatternsMeetWhereOneSubjectMatchesBoth(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"a.b", "a.b"}: true, {"a.b", "a.c"}: false, {"a.*", "a.c"}: true, {"a.*", "*.c"}: true, {"a.>", "a.b.c"}: true,
		{"a.>", "a"}: false, {"a.b", "a.b.c"}: false, {"*.b.>", "a.c.d"}: false, {">", "a"}: true,
	} {
		if meet(pair[0], pair[1]) != want || meet(pair[1], pair[0]) != want {
			t.Errorf("%s and %s: want %v", pair[0], pair[1], want)
		}
	}
}

// meet reports whether a subject matches both patterns. A placeholder of a template stands for one token.
func meet(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for n := range min(len(as), len(bs)) {
		switch {
		case as[n] == ">" || bs[n] == ">":
			return true
		case as[n] != bs[n] && as[n] != "*" && bs[n] != "*":
			return false
		}
	}
	return len(as) == len(bs)
}
