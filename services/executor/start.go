package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// maxStarts is how often the program of an image is started in a row without staying up,
// before another one does the work: the version before, or the program that was started
// from no image.
const maxStarts = 3

// circumstances are what a start is decided by.
type circumstances struct {
	Linked  string        // where the link to the program leads; "" when there is none
	There   bool          // whether that can be executed
	Runs    bool          // this process runs it already
	Started bool          // another executor became this process
	Count   int           // how often it was started since it last stayed up
	Before  func() string // gives the program of the version before, if that may be started; otherwise ""
}

// decide says which program this process becomes, if any: the one to which the link leads
// or, when that one cannot be it, the one of the version before. If there is a link and
// what it leads to does not run, it says why.
func decide(c circumstances) (become, why string) {
	switch {
	case c.Linked == "" || c.Runs:
		return "", ""
	case c.Count >= maxStarts:
		why = fmt.Sprintf("%s was started %d times and did not stay up", c.Linked, c.Count)
	case c.Started:
		why = c.Linked + " led back to another program"
	case !c.There:
		why = c.Linked + " is not there, or cannot be executed"
	default:
		return c.Linked, ""
	}
	if c.Started {
		return "", why
	}
	return c.Before(), why
}

// programBefore gives the program of the version before, as the link would say it, while
// its files are kept and it was not started too often itself. Who has the journal is
// another executor, beside which this one ends anyway.
func programBefore(root layout.Root) string {
	var program string
	err := journal.Look(root.Journal(), func(tx *journal.Tx) (err error) {
		program, err = engine.SelfBefore(root, tx)
		return err
	})
	if err != nil || program == "" || !executable(program) {
		return ""
	}
	if target := root.ProgramLink(program); readStarts(root)[target] < maxStarts {
		return target
	}
	return ""
}

// readStarts gives how often programs were started, each as the link says it. A file that
// cannot be read counts as none: what stands in it is worth less than a start.
func readStarts(root layout.Root) map[string]int {
	counts := map[string]int{}
	data, err := os.ReadFile(root.Starts())
	if err != nil || json.Unmarshal(data, &counts) != nil {
		return map[string]int{}
	}
	return counts
}

func writeStarts(root layout.Root, counts map[string]int) error {
	data, err := json.Marshal(counts)
	if err != nil {
		return err
	}
	return layout.Write(root.Starts(), append(data, '\n'), 0o600)
}

// countStart counts one more, before it happens.
func countStart(root layout.Root, program string) error {
	counts := readStarts(root)
	counts[program]++
	return writeStarts(root, counts)
}

// forgetStarts forgets how often one program was started, and not the others'.
func forgetStarts(root layout.Root, program string) error {
	counts := readStarts(root)
	if counts[program] == 0 {
		return nil
	}
	delete(counts, program)
	return writeStarts(root, counts)
}

// linkedProgram gives where the link to the program leads, as it stands there and as a path; both "" without one.
func linkedProgram(root layout.Root) (target, program string) {
	target, err := os.Readlink(root.Program())
	if err != nil {
		return "", ""
	}
	return target, filepath.Join(root.Home(), target)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
