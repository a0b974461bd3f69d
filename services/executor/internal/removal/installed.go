package removal

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// A person installed the program that starts the executor, and the unit that runs it. A removal
// names them and leaves them.

// byHand says why they stay.
const byHand = "installed by hand; remove it now if you want"

// installedByHand returns the program, and the file of the unit when systemd started this process.
func installedByHand(program string) (paths []string) {
	if program != "" {
		paths = append(paths, program)
	}
	if os.Getenv("SYSTEMD_EXEC_PID") != strconv.Itoa(os.Getpid()) {
		return paths // not the main process of a service, although perhaps in its control group
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return append(paths, unitFile(string(groups), "/etc/systemd/system", "/run/systemd/system",
		"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")...)
}

// unitFile returns the file of the service of a control group, from the first directory that has it.
func unitFile(groups string, dirs ...string) []string {
	unit := ""
	for line := range strings.Lines(groups) {
		if name := path.Base(strings.TrimSpace(line)); strings.HasSuffix(name, ".service") {
			unit = name
		}
	}
	for _, dir := range dirs {
		if file := filepath.Join(dir, unit); unit != "" && !layout.Missing(file) {
			return []string{file}
		}
	}
	return nil
}
