package systemd

import (
	"fmt"
	"slices"
	"strings"
)

// capabilities are the names of capabilities(7) without CAP_, in the order of their numbers.
var capabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
	SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// capability returns the number of a capability; negative for an unknown name.
func capability(name string) int {
	short, ok := strings.CutPrefix(name, "CAP_")
	if !ok {
		return -1
	}
	return slices.Index(capabilities, short)
}

// capabilityBits returns the set of the known capabilities among some names.
func capabilityBits(names []string) (bits uint64) {
	for _, n := range names {
		if c := capability(n); c >= 0 {
			bits |= 1 << c
		}
	}
	return bits
}

// checkCapabilities returns an error for the first unknown name.
func checkCapabilities(names []string) error {
	for _, n := range names {
		if capability(n) < 0 {
			return fmt.Errorf("%q is not a capability", n)
		}
	}
	return nil
}
