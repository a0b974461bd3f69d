package proctree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that was found by the files it uses, not by its start.
type Process struct {
	PID int
	Exe string // the file that it executes, if below the directories
	Dir string // its working directory, if below the directories
}

// Path returns the file that the process executes or, if that is elsewhere, its working directory.
func (p Process) Path() string { return cmp.Or(p.Exe, p.Dir) }

// Below returns the processes, except this one, that execute a file below some directories or work there, also when
// the file was deleted since. Processes whose user hides them are not found; a process in a container that has another
// file at the same path does not count. The directories must be free of symbolic links.
func Below(dirs ...string) (out []Process, err error) {
	pids, err := All()
	for _, pid := range pids {
		p := Process{pid, below(pid, "exe", dirs), below(pid, "cwd", dirs)}
		if pid != os.Getpid() && p.Path() != "" {
			out = append(out, p)
		}
	}
	return out, err
}

// Executes returns the file that a process executes if it is below one of some directories, else "", as Below finds it.
func Executes(pid int, dirs ...string) string { return below(pid, "exe", dirs) }

// EndBelow kills the processes that execute a file below some directories, as Below finds them, and returns the others
// that only work there: one may be a person's shell. The error names what did not end within the time.
func EndBelow(within time.Duration, dirs ...string) (others []Process, err error) {
	for end := time.Now().Add(within); ; time.Sleep(pollSeldom) {
		found, err := Below(dirs...)
		others = slices.DeleteFunc(slices.Clone(found), func(p Process) bool { return p.Exe != "" })
		if err != nil || len(others) == len(found) {
			return others, err
		}
		for _, p := range found {
			if p.Exe != "" {
				err = errors.Join(err, killBelow(p.PID, dirs))
			}
		}
		if time.Now().After(end) {
			return others, errors.Join(err, fmt.Errorf("%d processes below %s did not end within %s after SIGKILL",
				len(found)-len(others), strings.Join(dirs, " and "), within))
		}
	}
}

// killBelow kills a process if it still executes a file below the directories.
func killBelow(pid int, dirs []string) error {
	before, ok := StartTime(pid)
	if !ok || Executes(pid, dirs...) == "" {
		return nil
	}
	if after, ok := StartTime(pid); !ok || after != before {
		return nil
	}
	return sent(pid, unix.Kill(pid, unix.SIGKILL))
}

// deleted is what the kernel appends to the name of a deleted file.
const deleted = " (deleted)"

// below returns the target of one of a process's links if it is below one of the directories, else "".
func below(pid int, name string, dirs []string) string {
	link := Path(pid, name)
	target, err := os.Readlink(link)
	file, gone := strings.CutSuffix(target, deleted)
	if err != nil || !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file, dir+"/") }) {
		return ""
	}
	theirs, ours := link, file
	if gone { // then it counts if the process has our root directory
		theirs, ours = Path(pid, "root"), "/"
	}
	a, err := os.Stat(theirs)
	b, err2 := os.Stat(ours)
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		return ""
	}
	return file
}
