package status

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
)

// Print writes the status for a person.
func (s Status) Print(out io.Writer, now time.Time) error {
	s = s.AsOf(now)
	if s.State == Joined {
		_, err := fmt.Fprintf(out, "server    %s (cell %s)\nexecutor  joined; not run yet\n", s.ServerID, s.Cell)
		return err
	}
	state, bus := s.State, "disconnected"
	if s.Connected {
		bus = "connected"
	} else if s.outdated {
		bus = "unknown"
	}
	fmt.Fprintf(out, "server    %s (cell %s)\nexecutor  %s, version %s, status %s old\n", s.ServerID, s.Cell, state,
		s.Version, now.Sub(s.At).Round(time.Second))
	if s.State == Decommissioned {
		return nil
	}
	if s.Note != "" {
		fmt.Fprintf(out, "note      %s\n", s.Note)
	}
	if s.lives() {
		printLines(out, "busy", s.Busy)
		printLines(out, "ahead", s.Ahead)
	}
	if s.Code != "" && s.lives() {
		fmt.Fprintf(out, "reason    %s since %s: %s\n", s.Code, s.Since.Local().Format(time.DateTime), s.Reason)
	}
	if try := lifecycle.Remedy(s.Code, s.ServerID); try != "" && s.lives() {
		fmt.Fprintf(out, "try       %s\n", try)
	}
	if !s.NextTry.IsZero() && s.lives() {
		fmt.Fprintf(out, "retry     %s\n", s.NextTry.Local().Format(time.DateTime))
	}
	fmt.Fprintf(out, "bus       %s, document %d, %d reports waiting\n\n", bus, s.Applied, s.Outbox)
	return s.printAgents(out, now)
}

// printAgents writes the table of the agents.
func (s Status) printAgents(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tVERSION\tHEALTH\tPID\tSINCE\tSTEP\tREASON")
	for _, a := range s.Agents {
		pid, since := "-", "-"
		if a.Pid != 0 {
			pid = fmt.Sprint(a.Pid)
		}
		if !a.StartedAt.IsZero() {
			since = a.StartedAt.Local().Format(time.DateTime)
		}
		reason := cmp.Or(a.Reason, "-")
		if a.NextTry.After(now) && s.lives() {
			reason += "; next try at " + a.NextTry.Local().Format(time.TimeOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Agent, cmp.Or(a.Version, "-"), a.Health, pid, since,
			cmp.Or(a.Step, "-"), reason)
	}
	return w.Flush()
}

// printLines prints each of some lines behind a name.
func printLines(out io.Writer, name string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "%-10s%s\n", name, line)
	}
}
