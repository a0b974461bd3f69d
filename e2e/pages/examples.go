package pages

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

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
