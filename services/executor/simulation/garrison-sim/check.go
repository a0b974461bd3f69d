package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/services/executor/simulation"
)

// checkEvery is the pause between two comparisons while the ledger and the servers still differ.
const checkEvery = 500 * time.Millisecond

// check compares the ledger with the servers until both agree, or the time for that is over. It returns nil without an
// operator's context.
func (f *flags) check(ctx context.Context, fleet *simulation.Fleet) (*simulation.Result, error) {
	if f.context == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.settle)
	defer cancel()
	who, err := client.FindContext(f.context, os.Getenv)
	if err != nil {
		return nil, err
	}
	c, err := client.Connect(ctx, client.Options{Context: who})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	truths := fleet.Truths()
	check := simulation.NewCheck(func(server string) bool { _, ok := truths[server]; return ok })
	var last client.Position
	var result *simulation.Result
	for {
		if last, err = fold(ctx, c, check, last); err == nil {
			r := check.Compare(fleet.Truths(), time.Now())
			if result = &r; len(r.Findings) == 0 {
				return result, nil
			}
		}
		select {
		case <-ctx.Done():
			if result == nil {
				return nil, fmt.Errorf("read the ledger: %w", errors.Join(err, ctx.Err()))
			}
			return result, nil
		case <-time.After(checkEvery):
		}
	}
}

// fold passes the facts behind a position to the check, and returns the new position.
func fold(
	ctx context.Context, c *client.Client, check *simulation.Check, last client.Position,
) (client.Position, error) {
	for e, err := range c.Events(ctx, client.Query{After: last}) {
		if err != nil {
			return last, err
		}
		if e.Unread == nil {
			check.Fold(e.Fact)
		}
		last = e.Position()
	}
	return last, nil
}

// findingsShown is how many findings the text lists; the JSON has all of them.
const findingsShown = 20

// summary is what the program prints at its end.
type summary struct {
	Servers    int                      `json:"servers"`
	Joined     int                      `json:"joined"`
	Seconds    float64                  `json:"seconds"`
	Faults     map[simulation.Fault]int `json:"faults"`
	Dead       int64                    `json:"dead"`
	Documents  int64                    `json:"documents_taken"`
	Refused    int64                    `json:"documents_refused"`
	Unread     int64                    `json:"reads_failed"`
	Begun      int64                    `json:"tasks_begun"`
	Succeeded  int64                    `json:"tasks_succeeded"`
	Undone     int64                    `json:"tasks_undone"`
	Failed     int64                    `json:"tasks_failed"`
	Reports    int64                    `json:"reports_acknowledged"`
	Reconnects int64                    `json:"reconnects"`
	Checked    bool                     `json:"ledger_checked"`
	Tasks      int                      `json:"ledger_tasks"`
	Compared   int                      `json:"ledger_tasks_compared"`
	Open       int                      `json:"ledger_tasks_open"`
	Findings   []string                 `json:"findings"`
	Tried      map[string]int           `json:"servers_tried"` // how many servers began a change to a version
}

func (s *summary) fill(fleet *simulation.Fleet, r *simulation.Result) {
	seen := &fleet.Seen
	s.Tried = map[string]int{}
	for _, truth := range fleet.Truths() {
		for _, version := range truth.Tried {
			s.Tried[version]++
		}
	}
	s.Faults, s.Dead = fleet.Faulty(), seen.Ended.Load()
	s.Documents, s.Refused, s.Unread = seen.Documents.Load(), seen.Refused.Load(), seen.Unread.Load()
	s.Begun, s.Succeeded, s.Undone = seen.Begun.Load(), seen.Succeeded.Load(), seen.Undone.Load()
	s.Failed, s.Reports, s.Reconnects = seen.Failed.Load(), seen.Reports.Load(), seen.Reconnects.Load()
	if r != nil {
		s.Checked, s.Tasks, s.Compared, s.Open, s.Findings = true, r.Tasks, r.Compared, r.Open, r.Findings
	}
}

func (s *summary) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	var faults []string
	for _, f := range simulation.Faults {
		if n := s.Faults[f]; n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", n, f))
		}
	}
	lines := []string{
		fmt.Sprintf("servers     %d (%s); %d joined now, %d ended dead",
			s.Servers, strings.Join(faults, ", "), s.Joined, s.Dead),
		fmt.Sprintf("documents   %d taken, %d refused, %d readings failed", s.Documents, s.Refused, s.Unread),
		fmt.Sprintf("tasks       %d begun, %d succeeded, %d undone, %d failed",
			s.Begun, s.Succeeded, s.Undone, s.Failed),
		fmt.Sprintf("reports     %d acknowledged; %d reconnects; %.1f s", s.Reports, s.Reconnects, s.Seconds),
	}
	if s.Checked {
		lines = append(lines, fmt.Sprintf("ledger      %d tasks, %d compared, %d open, %d findings",
			s.Tasks, s.Compared, s.Open, len(s.Findings)))
	} else {
		lines = append(lines, "ledger      not checked; pass --context FILE")
	}
	for _, text := range s.Findings[:min(len(s.Findings), findingsShown)] {
		lines = append(lines, "  "+text)
	}
	if more := len(s.Findings) - findingsShown; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more; -o json lists them", more))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
