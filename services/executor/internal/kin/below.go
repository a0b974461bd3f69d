package kin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is one that is found by where it is, whatever it was started with.
type Process struct {
	PID int
	Exe string // the file that it executes, where that is below
	Dir string // the directory that it works in, where that is below
}

// Path is where it is.
func (p Process) Path() string {
	if p.Exe != "" {
		return p.Exe
	}
	return p.Dir
}

// Below gives the processes, but for this one, that execute a file below some directories or
// work there, also when that was deleted beneath them. One of a user whose processes we may
// not look at is not found, and one in a container that has the same path for another file
// is not meant. The directories are as the kernel names them: no part of one is a link.
func Below(dirs ...string) (out []Process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p := (Process{pid, leads(pid, "exe", dirs), leads(pid, "cwd", dirs)}); p.Path() != "" {
			out = append(out, p)
		}
	}
	return out, nil
}

// deleted is what the kernel says behind a name that leads to its file no more.
const deleted = " (deleted)"

// leads gives where one of a process's links leads, when that is below one of some directories.
func leads(pid int, name string, dirs []string) string {
	link := filepath.Join("/proc", strconv.Itoa(pid), name)
	target, err := os.Readlink(link)
	path, gone := strings.CutSuffix(target, deleted)
	if err != nil || !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
		return ""
	}
	its, ours := link, path
	if gone { // then it is ours when the process sees the files that we see
		its, ours = filepath.Join("/proc", strconv.Itoa(pid), "root"), "/"
	}
	a, err := os.Stat(its)
	b, e := os.Stat(ours)
	if err != nil || e != nil || !os.SameFile(a, b) {
		return ""
	}
	return path
}
