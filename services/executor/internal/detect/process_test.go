package detect

import "testing"

func TestTheServiceOfAProcessIsReadInEachHierarchyOfSystemd(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/system.slice/web.service\n":                                           "web.service",
		"12:pids:/a.service\n1:name=systemd:/system.slice/web.service\n":           "web.service",
		"1:name=systemd:/system.slice/web.service\n0::/system.slice/web.service\n": "web.service",
		"0::/user.slice/user-0.slice/user@0.service/app.slice/mail.service\n":      "user@0.service",
		"0::/machine.slice/machine-a.scope/payload/system.slice/web.service\n":     "machine-a.scope",
		"0::/user.slice/user-0.slice/session-3.scope\n":                            "session-3.scope",
		"12:pids:/system.slice/a.service\n1:name=systemd:/\n0::/\n":                "",
		"2:cpu,cpuacct:/docker/0123\n":                                             "",
	} {
		if got := unitIn(groups); got != want {
			t.Errorf("%q is in %q, want %q", groups, got, want)
		}
	}
}
