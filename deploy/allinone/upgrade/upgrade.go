// Package upgrade switches a garrisond that systemd runs to the program that is installed in its place, and back.
//
// An upgrade is one durable record, which only root can write, and a table of states. Each state has one piece of work
// that can be done again, so that a command that was killed continues where it was:
//
//   - planned: the program that runs is kept; the installed one rehearses on the data and with the settings;
//   - rehearsed: the program that runs writes a backup;
//   - saved: the unit is restarted;
//     what fails until here has the program that runs installed again, so that no restart brings the other one;
//   - started: the installed program must serve, and go on serving for a while;
//   - serving: a person finishes the upgrade, which deletes what was kept, or goes back;
//   - returning: the kept program is installed again, and the unit restarted.
package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/fsm"
)

// State is where an upgrade is.
type State string

// The states of an upgrade.
const (
	Planned   State = "planned"
	Rehearsed State = "rehearsed"
	Saved     State = "saved"
	Started   State = "started"
	Serving   State = "serving"
	Returning State = "returning"
	Stuck     State = "stuck" // neither program serves

	Refused  State = "refused" // the unit was not touched
	Back     State = "back"
	Finished State = "finished"
)

// Event is what ends a state.
type Event string

// The events of an upgrade.
const (
	passed     Event = "passed"      // the work of the state is done
	failed     Event = "failed"      // it cannot be done
	overtaken  Event = "overtaken"   // something else started the installed program: a crash, a reboot, a person
	calledBack Event = "called back" // by a person
	finished   Event = "finished"    // by a person
)

// Life is the table of states.
var Life = fsm.Table[State, Event]{
	Planned:   {passed: Rehearsed, failed: Refused, overtaken: Started},
	Rehearsed: {passed: Saved, failed: Refused, overtaken: Started},
	Saved:     {passed: Started, failed: Refused, overtaken: Started},
	Started:   {passed: Serving, failed: Returning, calledBack: Returning},
	Serving:   {finished: Finished, calledBack: Returning},
	Returning: {passed: Back, failed: Stuck},
	Stuck:     {calledBack: Returning, finished: Finished},
	Refused:   {},
	Back:      {},
	Finished:  {},
}

// Program is one build of garrisond.
type Program struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // hexadecimal
}

// Step is one piece of work that was done, or failed.
type Step struct {
	State State     `json:"state"` // whose work it was
	Event Event     `json:"event"`
	At    time.Time `json:"at"`
	Text  string    `json:"text,omitempty"` // why it failed, or what it says
}

// Record is one upgrade.
type Record struct {
	format.Stamp
	ID     string   `json:"id"`
	Actor  string   `json:"actor"`
	Reason string   `json:"reason,omitempty"`
	Unit   string   `json:"unit"`
	Data   string   `json:"data"`
	Args   []string `json:"args"` // of the process that ran before
	Path   string   `json:"path"` // where the programs are installed, one after the other
	From   Program  `json:"from"`
	To     Program  `json:"to"`
	State  State    `json:"state"`
	Steps  []Step   `json:"steps,omitempty"`
}

var recordFormat = format.Spec{Kind: "upgrade", Now: 1, Floor: 1, Oldest: 1}

// move goes to the next state.
func (r *Record) move(e Event, text string, at time.Time) error {
	next, ok := Life.Next(r.State, e)
	if !ok {
		return fmt.Errorf("an upgrade that is %s cannot be %s", r.State, e)
	}
	r.Steps = append(r.Steps, Step{r.State, e, at, text})
	r.State = next
	return nil
}

// ended reports whether another upgrade may begin.
func (r *Record) ended() bool { return Life.End(r.State) || r.State == Stuck }

// was reports whether something has happened.
func (r *Record) was(e Event) bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Event == e })
}

// store keeps the record of the last upgrade, and what that upgrade needs, in a directory of root.
type store string

func (s store) record() string           { return filepath.Join(string(s), "upgrade.json") }
func (s store) kept(r *Record) string    { return filepath.Join(string(s), r.ID, "garrisond") }
func (s store) backup(r *Record) string  { return filepath.Join(string(s), r.ID, "before.backup") }
func (s store) written(r *Record) string { return filepath.Join(string(s), r.ID, "written") } // by the unit's user

// load returns the last upgrade; nil before the first.
func (s store) load() (*Record, error) {
	text, err := os.ReadFile(s.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there was none
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := recordFormat.ReadJSON(s.record(), text, r); err != nil {
		return nil, err
	}
	if !slices.Contains(Life.States(), r.State) {
		return nil, fmt.Errorf("%s: the state %q is not known", s.record(), r.State)
	}
	return r, nil
}

// save writes the record, whole.
func (s store) save(r *Record) error {
	r.Stamp = recordFormat.Stamp()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.record(), append(text, '\n'), 0o600, renameio.WithTempDir(string(s)))
}

// clear deletes what earlier upgrades kept, but for their last record.
func (s store) clear() error {
	entries, err := os.ReadDir(string(s))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(string(s), e.Name())))
		}
	}
	return err
}
