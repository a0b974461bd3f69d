package topology

import "testing"

func TestAPatternIncludesWhatNATSSaysItDoes(t *testing.T) {
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
		{"a.>", "a", false},
		{">", "a", true},
	} {
		if have := includes(c.pattern, c.subject); have != c.want {
			t.Errorf("%s includes %s: %v, want %v", c.pattern, c.subject, have, c.want)
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
