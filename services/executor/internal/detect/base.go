package detect

import (
	"slices"
	"strings"
)

// The base set is what every machine of a distribution has. It is listed only with All.

// isBaseUnit reports whether a unit belongs to systemd itself or to logins.
func isBaseUnit(name string) bool {
	for _, prefix := range []string{
		"systemd-", "getty@", "serial-getty@", "console-getty", "container-getty@", "autovt@", "user@",
		"user-runtime-dir@", "dbus", "session-", "init.scope", "emergency.", "rescue.", "initrd-", "modprobe@",
		"plymouth", "dracut-", "polkit", "e2scrub", "fstrim", "apt-daily", "dpkg-db-backup", "man-db", "motd-news",
		"logrotate.", "networkd-dispatcher", "wpa_supplicant", "ldconfig", "kmod",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isBasePackage reports whether a package is part of every machine, where its manager does not say so.
func isBasePackage(name string) bool {
	for _, prefix := range []string{
		"systemd", "dbus", "kernel", "glibc", "linux-", "lib", "grub", "initramfs", "udev",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"bash", "coreutils", "util-linux", "filesystem", "setup", "shadow-utils", "login", "passwd", "e2fsprogs", "apt",
		"dpkg", "rpm", "dnf", "yum", "man-db", "logrotate", "cron", "cronie", "kmod", "procps", "procps-ng", "pam",
	}, name)
}

// sorted returns a list sorted, each text once.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// isProgram reports whether a packaged file is a program or a unit.
func isProgram(path string) bool {
	for _, dir := range []string{
		"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/", "/usr/local/", "/opt/", "/usr/libexec/",
	} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return isUnitFile(path)
}

func isUnitFile(path string) bool {
	return strings.HasSuffix(path, ".service") && strings.Contains(path, "/systemd/system/")
}
