package main

import (
	"io/fs"
	"testing"
)

func TestTheMemoryIsThatOfTheContainerOrOfTheMachine(t *testing.T) {
	t.Parallel()
	const proc, cgroup = "/proc/meminfo", "/sys/fs/cgroup/memory.max"
	const machine = "MemTotal:        8000000 kB\nMemFree: 1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine":             {map[string]string{proc: machine}, 8000000 << 10},
		"a container":           {map[string]string{proc: machine, cgroup: "1048576\n"}, 1 << 20},
		"one without a limit":   {map[string]string{proc: machine, cgroup: "max\n"}, 8000000 << 10},
		"another system's host": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := memoryOf(func(path string) ([]byte, error) {
				if text, ok := c.files[path]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			})
			if got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}
