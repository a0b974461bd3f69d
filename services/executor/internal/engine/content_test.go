package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// TestAContentChangedInPlaceIsFoundAndRepaired: no look shows a change that keeps size, mode and time.
func TestAContentChangedInPlaceIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.ContentEvery = 50 * time.Millisecond })
	m := b.image("gz-tools", "1.0.0", "", kind(agentv1.Kind_KIND_FILES))
	outcome(t, r.do(b.want(m)), good)
	b.settleDocument()
	r.offer()
	file := filepath.Join(b.root.Image(m.GetBlob().GetDigest()), "VERSION")
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, []byte(strings.Repeat("x", int(was.Size()))), 0o644),
		os.Chmod(file, was.Mode()), os.Chtimes(file, was.ModTime(), was.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("the file is as it was", func() bool {
		data, err := os.ReadFile(filepath.Join(b.root.Current(m.Agent), "VERSION"))
		return err == nil && string(data) == m.Version
	})
	r.wholeAgain(m)
}

func TestContentIsReadWithinAMinuteOrAtABoundedPace(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for total, want := range map[int64]int64{
		0:         1 * mib,
		90 * mib:  2 * mib,  // 45 s
		1 * gib:   4 * mib,  // four minutes
		20 * gib:  11 * mib, // half an hour
		500 * gib: 64 * mib, // more than two hours
	} {
		if have := contentPace(total, contentEvery) / mib; have != want/mib {
			t.Errorf("%d MiB: %d MiB/s; want %d", total/mib, have, want/mib)
		}
	}
}
