package executor_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// losses are the ways. early is a copy of the journal from before the agent was installed.
var losses = map[string]func(t *testing.T, root layout.Root, early map[string][]byte){
	"deleted": func(t *testing.T, root layout.Root, _ map[string][]byte) { remove(t, root.Journal()) },
	"deleted with its mark": func(t *testing.T, root layout.Root, _ map[string][]byte) {
		remove(t, root.Journal())
		remove(t, root.JournalMark())
	},
	"emptied": func(t *testing.T, root layout.Root, _ map[string][]byte) { put(t, root.Journal(), nil) },
	"cut": func(t *testing.T, root layout.Root, _ map[string][]byte) {
		put(t, root.Journal(), contents(t, root.Journal())[:9000])
	},
	"flipped": func(t *testing.T, root layout.Root, _ map[string][]byte) {
		data := contents(t, root.Journal())
		for at := 2 * os.Getpagesize(); at < len(data); at += 37 {
			data[at] ^= 0x10
		}
		put(t, root.Journal(), data)
	},
	"a flipped record": func(t *testing.T, root layout.Root, _ map[string][]byte) {
		data := contents(t, root.Journal())
		put(t, root.Journal(), bytes.ReplaceAll(data, []byte(`"agent":"gz-tools"`), []byte(`"agent":"gz-toolt"`)))
	},
	"garbage": func(t *testing.T, root layout.Root, _ map[string][]byte) {
		put(t, root.Journal(), bytes.Repeat([]byte("garbage "), 4096))
	},
	"set back": func(t *testing.T, root layout.Root, early map[string][]byte) {
		put(t, root.Journal(), early[root.Journal()])
	},
	"set back with its mark": func(t *testing.T, root layout.Root, early map[string][]byte) {
		put(t, root.Journal(), early[root.Journal()])
		put(t, root.JournalMark(), early[root.JournalMark()])
	},
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
