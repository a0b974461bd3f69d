// Package config lets the environment set flags: GARRISON_STORE_DIR sets --store-dir
// when the command line does not. A flag is the only way to name a setting, so -h
// shows the whole surface. What cannot be meant is refused while it is read, before
// anything is done, with words that say what is allowed.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
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
		help()
		return ErrHelp
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v (-h shows the flags)\n", fs.Name(), err)
		return ErrUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q (only flags stand here; -h shows them)%s\n", fs.Name(),
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
// is the first of commands. Another word is refused.
func Command(
	program string,
	args []string,
	stderr io.Writer,
	commands ...string,
) (command string, rest []string, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return commands[0], args, nil
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
