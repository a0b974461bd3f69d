package operator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// flagValue is a flag whose text is read with the command line, so that one that means
// nothing is refused, with what is allowed, before anything is asked or done. Every flag
// that is neither a switch nor free text is one.
type flagValue struct {
	read func(text string) error
	show func() string // as it is now, for --help
}

func (v flagValue) Set(text string) error { return v.read(text) }
func (v flagValue) Type() string          { return "value" }

func (v flagValue) String() string {
	if v.show == nil {
		return "" // pflag asks a zero one
	}
	return v.show()
}

// valueOf makes a flag's value from how it is read and shown.
func valueOf[T any](to *T, read func(string) (T, error), show func(T) string) flagValue {
	return flagValue{
		read: func(text string) (err error) {
			*to, err = read(text)
			return err
		},
		show: func() string { return show(*to) },
	}
}

// check refuses a text that means nothing.
type check func(text string) error

func aName(what string) check { return func(s string) error { return ident.CheckName(what, s) } }

// aServer refuses what is no server's id, prefix or name.
func aServer(s string) error { return ident.CheckHostname("server", s) }

func anID(what string) check { return func(s string) error { return ident.Check(what, s) } }

// said refuses an empty text: a variable of a script that is not set must not widen what is asked.
func said(what string) check {
	return func(s string) error {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("%q: which %s?", s, what)
		}
		return nil
	}
}

func oneOf(what string, all []string) check {
	return func(s string) error {
		if !slices.Contains(all, s) {
			return fmt.Errorf("%q is not a %s (want %s)", s, what, strings.Join(all, ", "))
		}
		return nil
	}
}

// orNone allows the empty text too, where it takes something away.
func orNone(c check) check {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return c(s)
	}
}

// textVar adds a flag with a text that must pass a check.
func textVar(f *pflag.FlagSet, to *string, name string, c check, help string) {
	f.Var(textValue(to, c), name, help)
}

func textValue(to *string, c check) flagValue {
	return valueOf(to, readText(c), func(s string) string { return s })
}

// namesVar adds a flag with names that are said again, or with commas between them.
func namesVar(f *pflag.FlagSet, to *[]string, name string, c check, help string) {
	f.Var(flagValue{read: func(text string) error {
		if text == "" {
			return c(text)
		}
		for part := range strings.SplitSeq(text, ",") {
			if part == "" {
				return fmt.Errorf("%q has an empty part", text)
			}
			if err := c(part); err != nil {
				return err
			}
			*to = append(*to, part)
		}
		return nil
	}}, name, help)
}

// timeVar adds a flag with a time above zero, and at most a longest one; zero bounds nothing.
func timeVar(f *pflag.FlagSet, to *time.Duration, name string, usual, longest time.Duration, help string) {
	*to = usual
	f.Var(valueOf(to, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil || d <= 0:
			return usual, fmt.Errorf("%q is not a time above zero, such as 90s, 10m or 2h", text)
		case longest > 0 && d > longest:
			return usual, fmt.Errorf("%q is too long; %s is the most", text, longest)
		}
		return d, nil
	}, time.Duration.String), name, help)
}

// allRows is how a limit that bounds nothing is said.
const allRows = "all"

// limitVar adds a flag with a count from 1 on, or all, which is 0.
func limitVar(f *pflag.FlagSet, to *uint32, name string, usual uint32, help string) {
	*to = usual
	f.Var(valueOf(to, func(text string) (uint32, error) {
		if text == allRows {
			return 0, nil
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return usual, fmt.Errorf("%q is not a whole number from 1 on, or %s", text, allRows)
		}
		return uint32(n), nil
	}, func(n uint32) string {
		if n == 0 {
			return allRows
		}
		return fmt.Sprint(n)
	}), name, help)
}

// readCount reads a whole number from 0 on.
func readCount(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", text, ^uint32(0))
	}
	return uint32(n), nil
}

// wordVar adds a flag with the value of an enum as a person says it; its words end the help.
func wordVar[E interface {
	protoreflect.Enum
	~int32
	String() string
}](f *pflag.FlagSet, to *E, name, help string) {
	f.Var(valueOf(to, parseWord[E], word[E]), name, help+": "+strings.Join(words((*to).Descriptor()), ", "))
}

// wordsVar adds one with several values.
func wordsVar[E interface {
	protoreflect.Enum
	~int32
}](f *pflag.FlagSet, to *[]E, name, help string) {
	var zero E
	f.Var(flagValue{read: func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			e, err := parseWord[E](part)
			if err != nil {
				return err
			}
			*to = append(*to, e)
		}
		return nil
	}}, name, help+": "+strings.Join(words(zero.Descriptor()), ", "))
}

// pairsVar adds a flag that is said again for each pair.
func pairsVar(f *pflag.FlagSet, to *map[string]string, name, help string, parse func(word string) (k, v string, err error)) {
	*to = map[string]string{}
	f.Var(flagValue{read: func(text string) error {
		k, v, err := parse(text)
		(*to)[k] = v
		return err
	}}, name, help)
}

// prints refuses columns that a listing lacks before a command changes anything.
func prints[T any](s *session, l listing[T]) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		if _, err := chosen(s.output.columns, true, l.columns); err != nil {
			return err
		}
		if s.output.sort == "" {
			return nil
		}
		_, err := columnNamed("--sort", strings.TrimPrefix(s.output.sort, "-"), l.columns)
		return err
	}
}

// flagError says which flag is wrong, why, and the nearest one when there is none. Behind a
// command that is not there, it is the command that is wrong.
func flagError(c *cobra.Command, err error) error {
	if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
		return verb(c, words)
	}
	text := err.Error()
	var wrong *pflag.InvalidValueError
	var missing *pflag.NotExistError
	switch {
	case errors.As(err, &wrong):
		why := wrong.Unwrap().Error()
		if wrong.GetFlag().Value.Type() == "bool" {
			why = fmt.Sprintf("%q is neither true nor false", wrong.GetValue())
		}
		text = "--" + wrong.GetFlag().Name + ": " + why
	case errors.As(err, &missing):
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest(missing.GetSpecifiedName(), names); near != "" {
			text += ". Nearest: --" + near
		}
	}
	return usage("%s: %s. Try: %s --help", c.CommandPath(), text, c.CommandPath())
}
