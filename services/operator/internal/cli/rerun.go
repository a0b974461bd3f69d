package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// rerunEvery is the shortest interval between two runs of a watched command.
const rerunEvery = time.Second

// The size of a terminal that does not say it.
const usualColumns, usualLines = 80, 24

// Watchable adds --watch to a command that prints something and changes nothing.
func Watchable(env *Env, c *cobra.Command) {
	watch, run := false, c.RunE
	c.Flags().BoolVarP(&watch, "watch", "w", false, "follow it until Ctrl-C; in a pipe, print only what changes")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !watch {
			return run(c, args)
		}
		if f := env.Output.Format; f == output.FormatJSON || f == output.FormatYAML {
			return Usage("--watch cannot print %s, which is one document. Try: -o jsonl", f)
		}
		return env.rerun(c.Context(), func() error { return run(c, args) })
	}
}

// rerun runs a command at once, soon after new facts, and every second, and prints what it prints when that is not what
// it printed before: on a terminal in place, elsewhere the lines that changed.
func (env *Env) rerun(ctx context.Context, run func() error) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	env.Say("watching; Ctrl-C ends it")
	last, first := "", true
	return c.Await(ctx, func(ctx context.Context) (bool, error) {
		began := time.Now()
		shown, err := env.captured(run)
		switch {
		case err != nil && (ctx.Err() != nil || first || !fault.Is(err, fault.Unavailable)):
			return false, err
		case err != nil:
			shown += "the service does not answer; retrying\n"
		}
		if first || shown != last {
			env.redraw(last, shown, first)
			last, first = shown, false
		}
		return false, Pause(ctx, rerunEvery-time.Since(began))
	})
}

// captured runs a command and returns what it prints, data and messages.
func (env *Env) captured(run func() error) (string, error) {
	var b bytes.Buffer
	out, errs, data := env.Out, env.Err, env.Output.Out
	env.Out, env.Err, env.Output.Out = &b, &b, &b
	err := run()
	env.Out, env.Err, env.Output.Out = out, errs, data
	return b.String(), err
}

// redraw prints a text in place of the last one.
func (env *Env) redraw(last, shown string, first bool) {
	if !IsTerminal(env.Out) || env.Getenv("TERM") == "dumb" {
		// A reader that went away ends the next write too.
		_, _ = io.WriteString(env.Out, changes(last, shown, env.Output.IsTable()))
		return
	}
	columns, lines := terminalSize(env.Out)
	_, _ = io.WriteString(env.Out, screen(shown, cmp.Or(columns, usualColumns), cmp.Or(lines, usualLines), first))
}

// passing is what changes in a row while nothing happens: ages, and the spaces between columns.
var passing = regexp.MustCompile(`\b([0-9]+[dhms])+\b|\s+`)

// changes returns the lines of a text that the last one has not, and of a table also the rows that went away, unless
// another row begins with the same word: that is the same thing in another state.
func changes(last, shown string, table bool) string {
	was, is, subjects := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(last) {
		was[passing.ReplaceAllString(line, " ")] = true
	}
	var b strings.Builder
	for line := range strings.Lines(shown) {
		key := passing.ReplaceAllString(line, " ")
		if !was[key] {
			b.WriteString(line)
		}
		is[key], subjects[subject(line)] = true, true
	}
	for line := range strings.Lines(last) {
		if table && !is[passing.ReplaceAllString(line, " ")] && !subjects[subject(line)] {
			b.WriteString("gone: " + line)
		}
	}
	return b.String()
}

// subject returns the first word of a row.
func subject(row string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(row, " "), " ")
	return first
}

// screen returns what draws a text at the top of a terminal, cut to its size.
func screen(shown string, columns, lines int, first bool) string {
	rows := strings.Split(strings.TrimRight(shown, "\n"), "\n")
	if len(rows) >= lines {
		more := len(rows) - (lines - 2)
		rows = append(rows[:lines-2], fmt.Sprintf("… and %s more", listing.Plural(more, "line")))
	}
	var b strings.Builder
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for _, row := range rows {
		b.WriteString(text.Trim(row, columns) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
