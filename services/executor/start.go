package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/format"
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
	Unfit   bool          // a newer program wrote the journal, and this one must not use it
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
	if become = c.Before(); become == "" && c.Unfit && c.There {
		return c.Linked, why // nobody else here may use the journal, so it is tried for ever
	}
	return become, why
}

// programBefore gives the program of the version before, as the link would say it, while
// its files are kept, it may use the journal, and it was not started too often itself. Who
// has the journal is another executor, beside which this one ends anyway.
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

// startsFormat numbers the counts. What is from before there were numbers is a plain map.
var startsFormat = format.Spec{Kind: "count of starts", Now: 1, Floor: 1}

// starts counts the starts of programs, each named as the link says it.
type starts struct {
	format.Stamp
	Starts map[string]int `json:"starts"`
}

// readStarts returns how often programs were started. A file that cannot be read counts as
// none: what is in it is worth less than a start.
func readStarts(root layout.Root) map[string]int {
	counts, _ := startsOf(root) // as above
	return counts
}

// startsOf returns the same, and why the file must not be written.
func startsOf(root layout.Root) (map[string]int, error) {
	data, err := os.ReadFile(root.Starts())
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

// countStart counts one more, before it happens.
func countStart(root layout.Root, program string) error {
	counts, err := startsOf(root)
	if err != nil {
		return err
	}
	counts[program]++
	return writeStarts(root, counts)
}

// forgetStarts forgets how often one program was started, and not the others'.
func forgetStarts(root layout.Root, program string) error {
	counts, err := startsOf(root)
	if err != nil || counts[program] == 0 {
		return err
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
