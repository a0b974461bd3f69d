package proctree

// Child is a process that another one started, directly or not.
type Child struct {
	Pid   int
	Start uint64 // in clock ticks since the boot
}

// Descendants returns the processes that descend from one now, the nearest first.
func Descendants(pid int) (out []Child) {
	all, _ := All() // without the list there are none that are known
	children := map[int][]Child{}
	for _, p := range all {
		if s, ok := Read(p); ok {
			children[s.Parent] = append(children[s.Parent], Child{p, s.Start})
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			out, next = append(out, c), append(next, c.Pid)
		}
	}
	return out
}
