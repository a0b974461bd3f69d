package busy

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Section is one critical section.
type Section struct {
	Name   string    `json:"name"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // it ends then by itself

	// The process with which it ends; 0 for a section without one.
	Pid     int    `json:"pid,omitempty"`
	Started uint64 `json:"process_started,omitempty"` // in clock ticks since the boot
	Boot    string `json:"boot_id,omitempty"`
}

// Of makes a process the one with which the section ends. It reports whether the process runs.
func (s *Section) Of(pid int, boot string) bool {
	started, ok := proctree.StartTime(pid)
	s.Pid, s.Started, s.Boot = pid, started, boot
	return ok
}

// lasts reports whether the section has not ended at a time.
func (s Section) lasts(now time.Time, boot string) bool {
	if !now.Before(s.Until) {
		return false
	}
	if s.Pid == 0 {
		return true
	}
	started, ok := proctree.StartTime(s.Pid)
	return ok && started == s.Started && s.Boot == boot
}

// String describes the section in a few words.
func (s Section) String() string {
	text := "critical section " + s.Name
	if s.Pid > 0 {
		text += fmt.Sprintf(" of process %d", s.Pid)
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text + ", until " + s.Until.UTC().Format(time.RFC3339) + " at the latest"
}
