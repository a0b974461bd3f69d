package topology

import (
	"strings"
	"testing"
)

func TestAPatternMatchesWhatNATSSaysItDoes(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"*.b", "a.b", true},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.b.d", false},
		{"a.>", "a.b.c", true},
		{"*.b.*", "a.b.c", true},
		{"a.>", "a", false},
		{"a.b.c.>", "a.b.c", false},
		{">", "a", true},
	} {
		if have := Matches(c.pattern, c.subject); have != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.pattern, c.subject, have, c.want)
		}
	}
}

func TestRolesPublishOnlyInTheirOwnName(t *testing.T) {
	intent := IntentSubject(VerbInstall, "ann", "id")
	for role, want := range map[Role]bool{
		Viewer: false, Operator: true, Admin: true, Reporter: false, Approver: false,
	} {
		p := RolePermissions(role)
		if have := p.MayPublish("ann", intent); have != want {
			t.Errorf("%s may install: %v, want %v", role, have, want)
		}
		if p.MayPublish("bob", intent) {
			t.Errorf("%s may install in the name of another", role)
		}
	}
}

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

// In the short form the stream and the consumer come first: a wildcard there reaches those of everybody.
func TestNoAcknowledgementReachesAnotherConsumer(t *testing.T) {
	t.Parallel()
	var all []string
	for _, e := range Exports {
		all = append(all, e.Subject)
	}
	for _, user := range Services {
		all = append(all, ServicePermissions(user).Publish...)
	}
	for _, role := range Roles {
		all = append(all, RolePermissions(role).Publish...)
	}
	seen := 0
	for _, subject := range all {
		if !strings.HasPrefix(subject, "$JS.ACK.") {
			continue
		}
		if seen++; strings.HasPrefix(subject, "$JS.ACK.*") || strings.HasPrefix(subject, "$JS.ACK.>") {
			t.Errorf("%s reaches the consumers of every stream", subject)
		}
	}
	if seen < 20 {
		t.Errorf("only %d subjects of acknowledgements were found", seen)
	}
}
