package executor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// settled looks, when the executor was stopped, at what is left: the journal's truth, one
// image for each instance, nothing temporary.
func (b *box) settled(task string, state taskv1.State, version string) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if left := b.executors(); len(left) != 0 {
		complain("executors are left: %v", left)
	}
	j, err := journal.Open(b.root.Journal())
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = j.Close() }()
	err = j.Read(func(tx *journal.Tx) error {
		ended, err := tx.Ended(task)
		if ended == nil || ended.State != state {
			complain("the journal says of the task: %v, want %s", ended, state)
		}
		changes, err2 := tx.Changes()
		if len(changes) != 0 {
			complain("%d changes are open", len(changes))
		}
		self, err3 := tx.Instance("executor")
		if got := self; (got == nil) != (version == "") || got != nil && got.Image.GetVersion() != version {
			complain("the inventory says %v, want version %q", got, version)
		}
		instances, err4 := tx.Instances()
		kept, err5 := tx.Kept()
		want := len(instances)
		for agent, of := range kept {
			if want += len(of); len(of) > 1 || agent != "executor" || version == "" {
				complain("of agent %s is kept: %v", agent, of)
			}
		}
		if images, _ := os.ReadDir(b.root.Images()); len(images) != want {
			complain("%d images for %d instances, and kept are %v", len(images), len(instances), kept)
		}
		return errors.Join(err, err2, err3, err4, err5)
	})
	if err != nil {
		complain("%v", err)
	}
	target, _ := os.Readlink(b.root.Program())
	if m := b.images[version]; version == "" && target != "" ||
		m != nil && target != b.root.ProgramLink(filepath.Join(b.root.Image(m.Blob.Digest), "bin/executor")) {
		complain("the program leads to %q, version %q", target, version)
	}
	return append(bad, b.leftovers()...)
}

func (b *box) leftovers() (bad []string) {
	_ = filepath.WalkDir(string(b.root), func(path string, d fs.DirEntry, err error) error {
		name := b.root.Relative(path)
		if err != nil || strings.HasPrefix(filepath.Base(path), layout.TemporaryPrefix) ||
			strings.HasPrefix(name, "cache/") ||
			path == b.root.Starts() {
			bad = append(bad, fmt.Sprintf("%s is left (%v)", name, err))
		}
		return nil
	})
	return bad
}
