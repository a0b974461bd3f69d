// Package config lets the environment set flags: GARRISON_STORE_DIR sets --store-dir
// when the command line does not. A flag is the only way to name a setting, so -h
// shows the whole surface. What cannot be meant is refused while it is read, before
// anything is done, with words that say what is allowed.
package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// ErrUsage is what Parse returns after it has printed what is wrong and how to call the program.
var ErrUsage = errors.New("usage")

// ErrHelp is what Parse returns after it has printed the help that was asked for.
var ErrHelp = fmt.Errorf("help: %w", ErrUsage)

// ExitCode returns the code that a program ends with after Parse, or anything else, failed.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, ErrHelp):
		return 0
	case errors.Is(err, ErrUsage):
		return 2
	}
	return 1
}

// oneDash is the name of a flag of several letters behind one dash, as package flag prints it; the pages of this
// product write two.
var oneDash = regexp.MustCompile(`(?m)(^  |: |flag )-([a-z][a-z0-9-]+)`)

// nearestFlag returns the flag that an unknown one was meant for.
func nearestFlag(fs *flag.FlagSet, err error) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	near := ""
	if unknown {
		near = nearest.Name(name, func(yield func(string) bool) {
			fs.VisitAll(func(f *flag.Flag) { yield(f.Name) })
		})
	}
	if near == "" {
		return ""
	}
	return ". Nearest: --" + near
}

// meant returns the flag that an argument was meant for: a name is often written without --name.
func meant(fs *flag.FlagSet) string {
	if f := fs.Lookup("name"); f != nil && f.Value.String() == "" {
		return fmt.Sprintf(". Try: %s --name %s", fs.Name(), fs.Arg(0))
	}
	return ""
}

// Parse reads args and then, for flags not among them, the environment. It refuses
// arguments that are not flags.
func Parse(fs *flag.FlagSet, args []string, getenv func(string) string, stderr io.Writer) error {
	help := fs.Usage
	fs.Usage = func() {} // what is wrong shall not stand above a page of flags
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.Usage = help
	fs.SetOutput(stderr)
	if errors.Is(err, flag.ErrHelp) {
		var page bytes.Buffer
		fs.SetOutput(&page)
		help()
		fs.SetOutput(stderr)
		_, _ = stderr.Write(oneDash.ReplaceAll(page.Bytes(), []byte("$1--$2")))
		return ErrHelp
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s%s (--help shows the flags)\n", fs.Name(),
			oneDash.ReplaceAllString(err.Error(), "$1--$2"), nearestFlag(fs, err))
		return ErrUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q (only flags stand here; --help shows them)%s\n", fs.Name(),
			fs.Arg(0), meant(fs))
		return ErrUsage
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	fs.VisitAll(func(f *flag.Flag) {
		v := getenv(Variable(f.Name))
		if given[f.Name] || v == "" || err != nil || f.Name == notASetting {
			return
		}
		if a, ok := f.Value.(Alternative); ok && a.Given() {
			return
		}
		if e := fs.Set(f.Name, v); e != nil {
			fmt.Fprintf(stderr, "%s: invalid value %q of %s: %v\n", fs.Name(), v, Variable(f.Name), e)
			err = ErrUsage
		}
	})
	return err
}

// notASetting is the flag that the environment does not set: every agent has its own
// version in GARRISON_VERSION, and may be a program of ours.
const notASetting = "version"

// Alternative is a flag that sets what other flags set too: once one of them is on the
// command line, the environment sets none.
type Alternative interface {
	flag.Value
	Given() bool
}

// Missing prints that a flag must be given, and returns ErrUsage.
func Missing(fs *flag.FlagSet, name string) error {
	f := fs.Lookup(name)
	_, usage := flag.UnquoteUsage(f)
	fmt.Fprintf(fs.Output(), "%s: --%s is missing: %s\n", fs.Name(), f.Name, usage)
	return ErrUsage
}

// Command takes the command from the arguments: the first one, unless it is a flag; then it
// is the first of commands. The word version is the flag --version. Another word is refused.
func Command(
	program string,
	args []string,
	stderr io.Writer,
	commands ...string,
) (command string, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return commands[0], args, nil
	}
	if args[0] == notASetting && len(args) == 1 {
		return commands[0], []string{"--" + notASetting}, nil
	}
	if !slices.Contains(commands, args[0]) {
		fmt.Fprintf(stderr, "%s: no command %q (want %s)\n", program, args[0], orList(commands))
		return "", nil, ErrUsage
	}
	return args[0], args[1:], nil
}

// Variable returns the name of the environment variable that sets a flag.
func Variable(flagName string) string {
	return "GARRISON_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}
