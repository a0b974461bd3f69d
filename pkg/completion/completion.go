// Package completion completes the command lines of programs that use package flag: their commands, flags, and the
// words of flags. A script for a shell asks the program itself, so that it never differs from it. The CLI garrison has
// completion of its own, which also asks the services.
//
// Guarantees:
//
//  1. A script runs PROGRAM __complete WORD…, with the words after the program's name; the last one is completed.
//  2. Each candidate is a line of its own; the line ":files" stands for the names of files.
//  3. Completing opens no file and no connection.
package completion

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Ask is the hidden command that a script runs.
const Ask = "__complete"

// script is the command that prints the script of a shell.
const script = "completion"

// files is the line that stands for the names of files.
const files = ":files"

// Program is what can be completed.
type Program struct {
	Name     string
	Commands []string                             // each one word, or two
	Flags    func(command string) *flag.FlagSet   // those of a command
	Default  string                               // the command of a command line that begins with a flag; may be empty
	Files    func(command string) (argument bool) // whether a command takes a file; may be nil
}

// chooser is a flag that takes some words only.
type chooser interface{ Words() []string }

// Print prints what can stand in place of the last word.
func (p Program) Print(w io.Writer, words []string) {
	for _, line := range p.candidates(words) {
		fmt.Fprintln(w, line)
	}
}

// candidates returns what can stand in place of the last word and begins with it.
func (p Program) candidates(words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	command, rest, ok := p.command(before)
	if !ok {
		return beginning(p.next(before, word), word)
	}
	if command != script {
		return p.ofFlags(command, rest, word)
	}
	if len(rest) > 0 {
		return nil
	}
	return beginning(append(slices.Clone(Shells), "--help"), word)
}

// ofFlags returns what can stand behind a command and its flags, and begins with a word.
func (p Program) ofFlags(command string, rest []string, word string) []string {
	set := p.Flags(command)
	if name, value, inOne := strings.Cut(word, "="); inOne && strings.HasPrefix(name, "-") {
		found := valuesOf(set, name)
		if slices.Equal(found, []string{files}) {
			return found
		}
		for n, v := range found {
			found[n] = name + "=" + v
		}
		return beginning(found, name+"="+value)
	}
	if n := len(rest); n > 0 && rest[n-1] == "=" { // bash takes = for a word of its own
		rest = rest[:n-1]
	} else if word == "=" {
		word = ""
	}
	if n := len(rest); n > 0 && takesValue(set, rest[n-1]) {
		return beginning(valuesOf(set, rest[n-1]), word)
	}
	if strings.HasPrefix(word, "-") || p.Files == nil || !p.Files(command) {
		return beginning(flagsOf(set), word)
	}
	return []string{files}
}

// command returns the command that words name, and those after it.
func (p Program) command(words []string) (name string, rest []string, ok bool) {
	for _, c := range p.Commands {
		if n := len(strings.Fields(c)); len(words) >= n && strings.Join(words[:n], " ") == c {
			return c, words[n:], true
		}
	}
	if p.Default != "" && len(words) > 0 && strings.HasPrefix(words[0], "-") {
		return p.Default, words, true
	}
	return "", nil, false
}

// next returns the words of commands that may follow others, and the flags of the default command.
func (p Program) next(before []string, word string) (out []string) {
	for _, c := range p.Commands {
		parts := strings.Fields(c)
		if n := len(before); n < len(parts) && slices.Equal(parts[:n], before) && !slices.Contains(out, parts[n]) {
			out = append(out, parts[n])
		}
	}
	if p.Default != "" && len(before) == 0 && strings.HasPrefix(word, "-") {
		out = append(out, flagsOf(p.Flags(p.Default))...)
	}
	return out
}

func flagsOf(set *flag.FlagSet) (out []string) {
	set.VisitAll(func(f *flag.Flag) { out = append(out, "--"+f.Name) })
	return append(out, "--help")
}

// lookup returns the flag that a word names.
func lookup(set *flag.FlagSet, word string) *flag.Flag {
	if !strings.HasPrefix(word, "-") {
		return nil
	}
	return set.Lookup(strings.TrimLeft(word, "-"))
}

func takesValue(set *flag.FlagSet, word string) bool {
	f := lookup(set, word)
	if f == nil {
		return false
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

// valuesOf returns the words that a flag takes, or the names of files when its placeholder says so.
func valuesOf(set *flag.FlagSet, word string) []string {
	f := lookup(set, word)
	if f == nil {
		return nil
	}
	if c, ok := f.Value.(chooser); ok {
		if words := c.Words(); len(words) > 0 {
			return slices.Clone(words)
		}
	}
	if placeholder, _ := flag.UnquoteUsage(f); placeholder == "FILE" || placeholder == "DIRECTORY" {
		return []string{files}
	}
	return nil
}

func beginning(all []string, with string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s != files && !strings.HasPrefix(s, with) })
}
