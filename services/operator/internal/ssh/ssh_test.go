package ssh

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAFailureNamesWhatFailedWithoutAnEmptyPart(t *testing.T) {
	m := &Host{Command: "/nonexistent/ssh -p 1", To: "root@web-1", Program: "executor"}
	for name, c := range map[string]struct {
		failed       error
		stderr, want string
		try          string
	}{
		"no such command": {
			exec.Command("/nonexistent/ssh").Run(), "",
			"cannot start the ssh command: fork/exec /nonexistent/ssh: no such file or directory",
			"--ssh-command COMMAND",
		},
		"ssh fails": {
			exec.Command("sh", "-c", "exit 255").Run(), "no route\n",
			"cannot reach root@web-1 by ssh: exit status 255: no route", "/nonexistent/ssh -p 1 root@web-1",
		},
		"it says nothing": {
			exec.Command("sh", "-c", "exit 1").Run(), "", "no receipt came from root@web-1: exit code 1",
			"the same command again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := m.failure(t.Context(), c.failed, c.stderr)
			if r.GetMessage() != c.want || r.GetTry() != c.try || strings.HasSuffix(r.GetMessage(), ": ") {
				t.Errorf("%q, try %q; want %q, try %q", r.GetMessage(), r.GetTry(), c.want, c.try)
			}
		})
	}
}

func TestOnlyWhatCanBeALoginIsOne(t *testing.T) {
	for login, want := range map[string]bool{
		"root@web-1": true, "web-1": true, "ann@10.0.0.7": true, "ssh://ann@web-1:2222": true,
		"": false, "-oProxyCommand=reboot": false, "root@web-1 reboot": false, "root@web\n1": false,
	} {
		if err := CheckLogin(login); (err == nil) != want {
			t.Errorf("%q: %v", login, err)
		}
	}
}
