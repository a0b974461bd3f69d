package proctree

import (
	"bytes"
	"os"
	"strconv"
)

// Child is a process that another one started, directly or not.
type Child struct {
	Pid   int
	Start uint64 // in clock ticks since the boot
}

// Descendants returns the processes that descend from one now, the nearest first.
func Descendants(pid int) (out []Child) {
	all, _ := All() // without the list there are none that are known
	children := map[int][]int{}
	for _, p := range all {
		if parent, ok := parentOf(p); ok {
			children[parent] = append(children[parent], p)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			if start, ok := StartTime(c); ok {
				out, next = append(out, Child{c, start}), append(next, c)
			}
		}
	}
	return out
}

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int, ok bool) {
	data, err := os.ReadFile(path(pid, "stat"))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
