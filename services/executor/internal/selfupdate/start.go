package selfupdate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// maxStarts is how often the program of an image is started in a row without staying up, before
// another one runs: the version before it, or the program that was installed by hand.
const maxStarts = 3

// circumstances are what decideStart depends on.
type circumstances struct {
	Linked  string        // target of the link to the program; "" without a link
	There   bool          // the linked program is executable, and no other user could have changed it
	Runs    bool          // this process runs the linked program
	Started bool          // another executor became this process
	Count   int           // starts of the linked program since it last stayed up
	Unfit   bool          // a newer program wrote the journal, and this one must not use it
	Before  func() string // returns the program of the version before, where it may be started; otherwise ""
}

// decideStart returns the program that this process becomes, or "": the linked program or, where
// that cannot run, the version before it. why is the reason when a linked program does not run.
func decideStart(c circumstances) (become, why string) {
	switch {
	case c.Linked == "" || c.Runs:
		return "", ""
	case c.Count >= maxStarts:
		why = fmt.Sprintf("%s was started %d times and did not stay up", c.Linked, c.Count)
	case c.Started:
		why = c.Linked + " led back to another program"
	case !c.There:
		why = c.Linked + " is not there, cannot be executed, or can be changed by another user"
	default:
		return c.Linked, ""
	}
	if c.Started {
		return "", why
	}
	if become = c.Before(); become == "" && c.Unfit && c.There {
		return c.Linked, why // no other program here may use the journal, so it is tried without end
	}
	return become, why
}

// programBefore returns the program of the version before, in the form of a link's target, while its
// files are kept, it may use the journal, and it was not started too often itself. While another
// executor holds the journal it returns ""; this one ends anyway.
func programBefore(root layout.Root) string {
	var program string
	err := journal.Look(root.Journal(), func(tx *journal.Tx) (err error) {
		if program, err = engine.SelfBefore(root, tx); program != "" && !tx.Knows(root.ProgramLink(program)) {
			program = ""
		}
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

// startsFormat numbers the file of counts. Without a number it is a plain map.
var startsFormat = format.Spec{Kind: "count of starts", Now: 1, Floor: 1}

// starts counts the starts of programs, each named by its link's target.
type starts struct {
	format.Stamp
	Starts map[string]int `json:"starts"`
}

// readStarts returns how often programs were started. An unreadable file counts as empty: a start
// matters more than the counts.
func readStarts(root layout.Root) map[string]int {
	counts, _ := startsOf(root) // as above
	return counts
}

// startsOf returns the same, and why the file must not be written.
func startsOf(root layout.Root) (map[string]int, error) {
	data, err := strictdir.ReadFile(root.Starts())
	if err != nil {
		return map[string]int{}, nil
	}
	var s starts
	if json.Unmarshal(data, &s) == nil && s.Format > 0 {
		if err := startsFormat.Check(root.Starts(), s.Stamp); err != nil || s.Starts == nil {
			return map[string]int{}, err
		}
		return s.Starts, nil
	}
	counts := map[string]int{}
	if json.Unmarshal(data, &counts) != nil {
		return map[string]int{}, nil
	}
	return counts, nil
}

func writeStarts(root layout.Root, counts map[string]int) error {
	data, err := json.Marshal(starts{startsFormat.Stamp(), counts})
	if err != nil {
		return err
	}
	return layout.Write(root.Starts(), append(data, '\n'), 0o600)
}

// countStart counts one more start, before it happens.
func countStart(root layout.Root, program string) error {
	counts, err := startsOf(root)
	if err != nil {
		return err
	}
	counts[program]++
	return writeStarts(root, counts)
}

// forgetStarts removes the count of one program.
func forgetStarts(root layout.Root, program string) error {
	counts, err := startsOf(root)
	if err != nil || counts[program] == 0 {
		return err
	}
	delete(counts, program)
	return writeStarts(root, counts)
}

// LinkedProgram returns the target of the link to the program, and its path; both "" without a link.
func LinkedProgram(root layout.Root) (target, program string) {
	target, err := os.Readlink(root.Program())
	if err != nil {
		return "", ""
	}
	return target, filepath.Join(root.Home(), target)
}

// executable reports whether a program may be executed: no other user could have changed it.
func executable(path string) bool {
	if strictdir.File(path) != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}
