package pages

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Programs compares command lines with the help of the programs in a directory.
type Programs struct {
	Dir     string
	Targets []string // of make
	help    map[string]help
}

// has returns how many words name a command: 2 for journal show, 0 when there is no such command.
func (h help) has(word string, next []string) int {
	if len(next) > 0 && slices.Contains(h.commands, word+" "+next[0]) {
		return 2
	}
	if slices.Contains(h.commands, word) {
		return 1
	}
	return 0
}

// help is what a program prints of one of its commands.
type help struct {
	commands []string
	flags    map[string]bool // by name; the value reports whether the flag takes one
}

// services have two commands, which their help does not list.
var services = []string{"registry", "image-catalog", "task-dispatcher", "access"}

// names are those of the programs of Garrison.
var names = append([]string{"garrison", "garrisond", "executor", "gateway"}, services...)

// Check returns what is wrong with a command line: a command or a flag that its program does not have. Other programs
// are not looked at.
func (p *Programs) Check(ctx context.Context, c Command) error {
	switch {
	case len(c.Words) == 0:
		return nil
	case c.Words[0] == "make":
		return p.checkMake(c)
	case !slices.Contains(names, c.Words[0]):
		return nil
	}
	if err := p.check(ctx, c.Words[0], c.Words[1:]); err != nil {
		return fmt.Errorf("line %d: %s: %w", c.Line, strings.Join(c.Words, " "), err)
	}
	return nil
}

func (p *Programs) checkMake(c Command) error {
	for _, w := range c.Words[1:] {
		if w != "" && !strings.ContainsAny(w, "=-") && !slices.Contains(p.Targets, w) && strings.ToLower(w) == w {
			return fmt.Errorf("line %d: make has no target %q", c.Line, w)
		}
	}
	return nil
}

// placeholder is a word that stands for what a reader puts there.
var placeholder = regexp.MustCompile(`^[^a-z]*$|^[A-Z][A-Z_-]*`)

// check follows the words of a command line from the program to its innermost command, and then looks at its flags.
func (p *Programs) check(ctx context.Context, program string, words []string) error {
	at, err := p.of(ctx, program, nil)
	if err != nil {
		return err
	}
	var path, flags []string
	descending := true
	for i := 0; i < len(words) && words[i] != "--"; i++ {
		w := words[i]
		if strings.HasPrefix(w, "-") && len(w) > 1 {
			name, known, valued := at.flag(w)
			if !known || !descending {
				flags = append(flags, name)
			} else if valued {
				i++
			}
			continue
		}
		n := at.has(w, words[i+1:])
		if !descending || n == 0 {
			if descending && len(flags) == 0 && at.lacks(w) {
				return fmt.Errorf("there is no command %q", w)
			}
			descending = false
			continue
		}
		path = append(path, words[i:i+n]...)
		i += n - 1
		if at, err = p.of(ctx, program, path); err != nil {
			return err
		}
	}
	return p.flags(ctx, program, path, at, flags)
}

// flag returns the name of a flag, whether the command has it, and whether the next word is its value.
func (h help) flag(word string) (name string, known, valued bool) {
	name, _, own := strings.Cut(strings.TrimLeft(word, "-"), "=")
	takes, known := h.flags[name]
	return name, known, takes && !own
}

// lacks reports whether a word should be a command of this one, and is not.
func (h help) lacks(word string) bool {
	return len(h.commands) > 0 && word != "" && !placeholder.MatchString(word)
}

func (p *Programs) flags(ctx context.Context, program string, path []string, at help, flags []string) error {
	if program == "garrisond" && len(path) == 0 { // its default command
		var err error
		if at, err = p.of(ctx, program, []string{"run"}); err != nil {
			return err
		}
	}
	for _, name := range flags {
		if _, ok := at.flags[name]; !ok && name != "help" && name != "h" && !placeholder.MatchString(name) {
			return fmt.Errorf("%s has no flag %q", strings.Join(append([]string{program}, path...), " "), name)
		}
	}
	return nil
}

var (
	commandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*(?: [a-z]+)?)  +\S|^  ([a-z]+-[a-z]+|[a-z]{11,}) \S`)
	cobraFlag   = regexp.MustCompile(`(?m)^ +(?:-([A-Za-z]), )?--([a-z][a-z0-9-]*)(\[=\S*\]|)( \S+|)  `)
	plainFlag   = regexp.MustCompile(`(?m)^  --?([a-z][a-z0-9-]*)( \S+|)`)
)

// of returns the help of a command.
func (p *Programs) of(ctx context.Context, program string, path []string) (help, error) {
	key := strings.Join(append([]string{program}, path...), " ")
	if h, ok := p.help[key]; ok {
		return h, nil
	}
	text, err := p.print(ctx, program, path)
	if err != nil {
		return help{}, err
	}
	h := help{flags: map[string]bool{}}
	if program == cliName && len(path) > 0 { // its help does not repeat the flags of every command
		all, err := p.of(ctx, program, nil)
		if err != nil {
			return help{}, err
		}
		maps.Copy(h.flags, all.flags)
	}
	if len(path) == 0 && slices.Contains(services, program) {
		h.commands = []string{"health", "view"}
	}
	head, _, _ := strings.Cut(text, "\nFlags:\n")
	if strings.Contains(head, "Usage:\n") && !strings.Contains(head, "[command]\n") { // a command without commands
		head = ""
	}
	for _, m := range commandLine.FindAllStringSubmatch(head, -1) {
		h.commands = append(h.commands, m[1]+m[2])
	}
	for _, m := range cobraFlag.FindAllStringSubmatch(text, -1) {
		h.flags[m[2]] = m[4] != ""
		if m[1] != "" {
			h.flags[m[1]] = m[4] != ""
		}
	}
	for _, m := range plainFlag.FindAllStringSubmatch(text, -1) {
		h.flags[m[1]] = m[2] != ""
	}
	if p.help == nil {
		p.help = map[string]help{}
	}
	p.help[key] = h
	return h, nil
}

// cliName is the program whose first page of help does not list every command.
const cliName = "garrison"

// print runs a program with --help.
func (p *Programs) print(ctx context.Context, program string, path []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	args := append(slices.Clone(path), "--help")
	if program == cliName && len(path) == 0 {
		args = []string{"help", "all"}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(p.Dir, program), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
