package executor

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// What started an executor is not of its making: somebody installed the program, and the
// unit that runs it. An uninstall names them, and leaves them to who installed them.

// byHand says why they stay.
const byHand = "somebody installed it, and may remove it now"

// installedByHand gives the program that was started from no image, and the unit's file
// when systemd started it.
func installedByHand() (paths []string) {
	if program, err := firstProgram(); err == nil {
		paths = append(paths, program)
	}
	if os.Getenv("SYSTEMD_EXEC_PID") != strconv.Itoa(os.Getpid()) {
		return paths // not the main process of a service, whose control group it may share
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return append(paths, unitFile(string(groups), "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")...)
}

// unitFile gives the file of the service whose control group this is, from the first
// directory that has it.
func unitFile(groups string, dirs ...string) []string {
	unit := ""
	for line := range strings.Lines(groups) {
		if name := path.Base(strings.TrimSpace(line)); strings.HasSuffix(name, ".service") {
			unit = name
		}
	}
	for _, dir := range dirs {
		if file := filepath.Join(dir, unit); unit != "" && !notThere(file) {
			return []string{file}
		}
	}
	return nil
}
