package listening

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// maxOpen is how many open files of a process are looked at.
const maxOpen = 64 << 10

// Sockets returns the inodes of the sockets that a process holds.
func Sockets(pid int) []string {
	inodes, _ := held(pid) // one that ended, or that is hidden, holds none that is known
	return inodes
}

func held(pid int) (inodes []string, err error) {
	d, err := os.Open(proctree.Path(pid, "fd"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(maxOpen)
	for _, fd := range names {
		to, _ := os.Readlink(proctree.Path(pid, "fd/"+fd))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes, err
}

// Holder is who holds some sockets. The zero value is unknown: the kernel hides the open files of some processes.
type Holder struct {
	Pid     int
	Mine    bool // it is the caller's
	Outside bool // no process that this server's executor sees has them
}

// Any reports whether one of some processes holds one of some sockets.
func Any(inodes []string, pids []int) bool {
	return slices.ContainsFunc(pids, func(pid int) bool {
		is, _ := holds(pid, inodes)
		return is
	})
}

func holds(pid int, inodes []string) (is, hidden bool) {
	has, err := held(pid)
	is = slices.ContainsFunc(has, func(inode string) bool { return slices.Contains(inodes, inode) })
	return is, errors.Is(err, fs.ErrPermission)
}

// Who looks at all processes, and returns who holds one of some sockets. isMine reports whether a process is the
// caller's, which is asked only of those that hold one.
func Who(inodes []string, isMine func(pid int) bool) Holder {
	all, err := proctree.All()
	found, blind := Holder{}, err != nil
	for _, pid := range all {
		is, hidden := holds(pid, inodes)
		blind = blind || hidden
		switch {
		case is && isMine(pid):
			return Holder{Pid: pid, Mine: true}
		case is && found.Pid == 0:
			found.Pid = pid
		}
	}
	found.Outside = found.Pid == 0 && !blind
	return found
}

// String names the process for people.
func (h Holder) String() string {
	if h.Pid == 0 {
		return "a process that the executor does not see"
	}
	name, err := os.ReadFile(proctree.Path(h.Pid, "comm"))
	if err != nil {
		return fmt.Sprintf("process %d", h.Pid)
	}
	return fmt.Sprintf("process %d (%s)", h.Pid, strings.ToValidUTF8(strings.TrimSpace(string(name)), "?"))
}
