package sysinfo

import (
	"context"
	"os"
	"strings"

	"github.com/shirou/gopsutil/v4/host"
)

// releaseFiles name the distribution, the first that exists; see os-release(5). Reading one starts no program, as
// gopsutil does on Linux (lsb_release, a script that starts seven more).
var releaseFiles = []string{"/etc/os-release", "/usr/lib/os-release"}

// distribution returns the system's identifier and its version, as in "debian 12".
func distribution(ctx context.Context) string {
	for _, file := range releaseFiles {
		if text, err := os.ReadFile(file); err == nil {
			return release(string(text))
		}
	}
	name, _, version, err := host.PlatformInformationWithContext(ctx)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(name + " " + version)
}

// release reads ID and VERSION_ID from the text of an os-release file.
func release(text string) string {
	var id, version string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.ToValidUTF8(strings.Trim(value, `"'`), "?")
		switch key {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	return strings.TrimSpace(id + " " + version)
}
