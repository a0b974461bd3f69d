package systemd

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestACapabilityHasTheNumberOfTheKernel(t *testing.T) {
	for name, want := range map[string]int{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
		"CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE, "CAP_SYS_TIME": unix.CAP_SYS_TIME,
		"CAP_AUDIT_WRITE": unix.CAP_AUDIT_WRITE, "CAP_SETFCAP": unix.CAP_SETFCAP,
		"CAP_CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE, "CHOWN": -1, "CAP_NONE": -1, "": -1,
	} {
		if got := capability(name); got != want {
			t.Errorf("%q has the number %d, want %d", name, got, want)
		}
	}
	if n := len(capabilities); n != unix.CAP_LAST_CAP+1 {
		t.Errorf("%d capabilities, want %d", n, unix.CAP_LAST_CAP+1)
	}
}
