package display

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/visible"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Task is a task as the dispatcher returns it.
type Task = *taskv1.Task

// Tasks lists tasks.
var Tasks = listing.Listing[Task]{
	Name: func(t Task) string { return t.GetId() },
	Columns: []listing.Column[Task]{
		{Title: "ID", Value: func(v listing.View, t Task) string { return listing.ShortID(v, t.GetId()) }},
		listing.Col("VERB", func(t Task) string { return VerbText(t) }),
		{Title: "SERVER", Value: func(v listing.View, t Task) string { return v.Server(t.GetServerId()) }},
		listing.Col("AGENT", Task.GetAgent),
		listing.Col("FROM", func(t Task) string { return t.GetFrom().GetVersion() }),
		listing.Col("TO", func(t Task) string { return t.GetTo().GetVersion() }),
		listing.Col("STATE", func(t Task) string { return listing.Word(t.GetState()) }),
		listing.Since("SINCE", Task.GetSince),
		{Title: "STEP", Value: LiveText},
		{Title: "NEXT", Value: taskNext},
		listing.Col("REASON", TaskReason),
		listing.Wide("ATTEMPT", func(t Task) string { return fmt.Sprint(t.GetAttempt()) }).Numeric(),
		listing.Wide("QUEUED", func(t Task) string { return listing.Stamp(t.GetQueuedAt()) }),
		listing.Wide("DEADLINE", func(t Task) string { return listing.Stamp(t.GetDeadline()) }),
		listing.Wide("INTENT", Task.GetIntentId),
	},
}

// verbed is a task, and the fact that queues it.
type verbed interface {
	GetVerb() taskv1.Verb
	GetPurgeKept() bool
	GetAhead() *imagev1.Ahead
}

// VerbText returns the verb of a task; that of a refresh which deletes kept versions is the command that asks for it.
func VerbText(t verbed) string {
	if t.GetAhead() != nil {
		return aheadVerb + " " + t.GetAhead().GetImage().GetVersion()
	}
	if t.GetPurgeKept() {
		return purgeVerb
	}
	return listing.Word(t.GetVerb())
}

// taskNext returns the next state of a task and its deadline.
func taskNext(v listing.View, t Task) string {
	switch t.GetState() {
	case taskv1.State_STATE_QUEUED:
		return "assigned " + back(t) + listing.Until(v, t.GetDeadline())
	case taskv1.State_STATE_ASSIGNED:
		return "starts " + back(t) + listing.Until(v, t.GetDeadline())
	case taskv1.State_STATE_RUNNING:
		return "ends " + listing.Until(v, t.GetDeadline())
	}
	return ""
}

// back returns that a task waits for its server, if that is offline.
func back(t Task) string {
	if t.GetServerOfflineSince() == nil {
		return ""
	}
	return "when the server is back, "
}

// TaskReason returns the reason of a task's state, with the failed step and the code if the executor reported them.
func TaskReason(t Task) string {
	o := t.GetOutcome()
	late := t.GetReported() != taskv1.State_STATE_UNSPECIFIED
	var out []string
	if late {
		out = append(out, t.GetReason())
	}
	if step := listing.Word(o.GetFailedStep()); step != "" {
		out = append(out, "at "+step)
	}
	if o.GetCode() != "" {
		out = append(out, o.GetCode())
	}
	if o.GetReason() != "" {
		out = append(out, o.GetReason())
	} else if t.GetReason() != "" && !late {
		out = append(out, t.GetReason())
	}
	return strings.Join(out, ": ")
}

// TaskEnded reports whether a task is in a final state. A state of a newer dispatcher is not known to be one.
func TaskEnded(t Task) bool {
	return t.GetState() >= taskv1.State_STATE_SUCCEEDED && listing.Known(t.GetState())
}

// Steps formats the finished steps of a task with their durations.
func Steps(o *taskv1.Outcome) string {
	var out []string
	for _, step := range o.GetSteps() {
		out = append(out, listing.Word(step.GetStep())+" "+step.GetTook().AsDuration().Round(time.Millisecond).String())
	}
	return strings.Join(out, ", ")
}

// tellingLineBytes bounds the line of an agent's output that is shown beside a failure.
const tellingLineBytes = 200

// telling matches a line in which a program names why it ends.
var telling = regexp.MustCompile(`(?i:error|exception|panic|fatal|critical)(?: \([^)]*\))?["\]]?:` +
	`|\b(?:ERROR|FATAL|PANIC|CRITICAL|EMERG)\b` +
	`|(?i:level"?[=:] ?"?(?:error|fatal|panic|crit))` +
	`|(?i:panicked at|not defined: |segmentation fault|core dumped|out of memory)` +
	`|(?i:\b(?:unknown|unrecognized|unexpected|invalid|illegal|bad|missing|required)\b.{0,20}` +
	`\b(?:flag|option|argument|command|value|configuration|config)s?\b)` +
	`|(?i:permission denied|no such file or directory|address already in use|connection refused)` +
	`|(?i:(?:^|: )(?:cannot|can't|could not|failed to|unable to) )`)

// TellingLine returns the line of what an agent printed before its task failed that names the cause, or "". That is the
// last line with the words of an error, since a usage text or a stack may follow it; without one, the last line. Such
// texts are indented, so lines that are do not count. The line of the old version follows, when it failed then.
func TellingLine(t Task) string {
	tail, old, failed := strings.Cut(visible.Text(t.GetOutcome().GetLogTail()), task.OldOutput)
	line := tellingLine(tail)
	if failed {
		line = strings.TrimPrefix(line+"; the old version: "+tellingLine(old), "; ")
	}
	return line
}

func tellingLine(tail string) string {
	lines := strings.Split(strings.TrimSpace(tail), "\n")
	line := lines[len(lines)-1]
	for _, l := range lines {
		if indented := strings.TrimLeft(l, " \t") != l; !indented && telling.MatchString(l) {
			line = l
		}
	}
	line = listing.OneLine(line)
	if len(line) <= tellingLineBytes {
		return line
	}
	return strings.ToValidUTF8(line[:tellingLineBytes-len("…")], "") + "…"
}
