package pages

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is a command line of a page.
type Command struct {
	Line  int
	Words []string // without quotes; the first is the program
}

// wrappers are commands that run their operands, by the number of their own arguments.
var wrappers = map[string]int{"sudo": 0, "exec": 0, "runuser": 3, "xargs": 0, "!": 0}

// Commands returns the command lines of a block, those in substitutions and pipes too. Words that are not literal, such
// as "$(date)", are left out of their command.
func (b Block) Commands() ([]Command, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(shellText(b.Text)), "")
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", b.Line, err)
	}
	var commands []Command
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			c := Command{Line: b.Line + int(call.Args[0].Pos().Line()) - 1}
			for _, w := range call.Args {
				c.Words = append(c.Words, literal(w))
			}
			commands = append(commands, c.inner())
		}
		return true
	})
	return commands, nil
}

// notation is what pages write for their readers and no shell understands: what may be left out, and a choice.
var notation = regexp.MustCompile(`…|\.\.\.|[\[\]]|\|[A-Za-z]\S*`)

// shellText returns a text as a shell reads it: usage lines such as [--flag A|B] become --flag A.
func shellText(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.ContainsAny(line, "'\"") {
			line = notation.ReplaceAllString(line, "")
		}
		out.WriteString(line)
	}
	return out.String()
}

// inner returns the command that a wrapper such as sudo runs.
func (c Command) inner() Command {
	for len(c.Words) > 0 {
		own, ok := wrappers[c.Words[0]]
		if !ok || len(c.Words) <= own+1 {
			break
		}
		c.Words = c.Words[own+1:]
	}
	if len(c.Words) > 0 {
		c.Words[0] = filepath.Base(c.Words[0])
	}
	return c
}

// literal returns the text of a word without its quotes; what is expanded is left out.
func literal(w *syntax.Word) string {
	var out strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, p := range parts {
			switch p := p.(type) {
			case *syntax.Lit:
				out.WriteString(p.Value)
			case *syntax.SglQuoted:
				out.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			}
		}
	}
	add(w.Parts)
	return out.String()
}

var (
	subcommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  +\S`)
	nextTitle  = regexp.MustCompile(`\n\n[A-Z][A-Za-z ]*:\n`)
)

// Examples returns the examples of each help that a program such as garrison prints, by the words of their command. A
// line that a program of another name begins is one of them.
func Examples(ctx context.Context, program string) (map[string][]string, error) {
	all := map[string][]string{}
	return all, addExamples(ctx, program, nil, all)
}

func addExamples(ctx context.Context, program string, path []string, all map[string][]string) error {
	args := append(path[:len(path):len(path)], "--help")
	if len(path) == 0 {
		args = []string{"help", "all"}
	}
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	_, text, _ := strings.Cut("\n"+string(out), "\nUsage:\n")
	if _, after, ok := strings.Cut(text, "\nExamples:\n"); ok {
		if end := nextTitle.FindStringIndex(after); end != nil {
			after, text = after[:end[0]], after[end[0]:]
		}
		for line := range strings.Lines(after) {
			if line = strings.TrimSpace(line); line != "" {
				command := strings.Join(path, " ")
				all[command] = append(all[command], line)
			}
		}
	}
	text, _, _ = strings.Cut(text, "\nTopics of ")
	for _, m := range subcommand.FindAllStringSubmatch(text, -1) {
		if m[1] == "help" {
			continue
		}
		if err := addExamples(ctx, program, append(path[:len(path):len(path)], m[1]), all); err != nil {
			return err
		}
	}
	return nil
}
