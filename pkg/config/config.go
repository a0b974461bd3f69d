// Package config lets the environment set flags: GARRISON_STORE_DIR sets --store-dir
// when the command line does not. A flag is the only way to name a setting, so -h
// shows the whole surface.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// ErrUsage is what Parse returns after it has printed what is wrong and how to call the program.
var ErrUsage = errors.New("usage")

// ErrHelp is what Parse returns after it has printed the help that was asked for.
var ErrHelp = fmt.Errorf("help: %w", ErrUsage)

// ExitCode gives the code that a program ends with after Parse, or anything else, failed.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, ErrHelp):
		return 0
	case errors.Is(err, ErrUsage):
		return 2
	}
	return 1
}

// Parse reads args and then, for flags not among them, the environment. It refuses
// arguments that are not flags.
func Parse(fs *flag.FlagSet, args []string, getenv func(string) string, stderr io.Writer) error {
	fs.SetOutput(stderr)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return ErrHelp
	} else if err != nil {
		return ErrUsage
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", fs.Name(), fs.Arg(0))
		return ErrUsage
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		v := getenv(Variable(f.Name))
		if given[f.Name] || v == "" || err != nil {
			return
		}
		if e := fs.Set(f.Name, v); e != nil {
			fmt.Fprintf(stderr, "%s: %s: %v\n", fs.Name(), Variable(f.Name), e)
			err = ErrUsage
		}
	})
	return err
}

// Variable gives the name of the environment variable that sets a flag.
func Variable(flagName string) string {
	return "GARRISON_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}
