package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// FlagValue is a flag whose value is parsed with the command line, so that a meaningless value is refused, with the
// allowed ones, before any request. Every flag that is neither a switch nor free text is a FlagValue.
type FlagValue struct {
	Read func(text string) error
	show func() string // the current value, for --help

	words []string // the allowed values, when they are known
}

// Set implements pflag.Value.
func (v FlagValue) Set(text string) error { return v.Read(text) }

// Type implements pflag.Value.
func (v FlagValue) Type() string { return "value" }

// String implements fmt.Stringer.
func (v FlagValue) String() string {
	if v.show == nil {
		return "" // pflag calls it on a zero value
	}
	return v.show()
}

// ValueOf returns a flag with the given parser and formatter.
func ValueOf[T any](to *T, read func(string) (T, error), show func(T) string) FlagValue {
	return FlagValue{
		Read: func(text string) (err error) {
			*to, err = read(text)
			return err
		},
		show: func() string { return show(*to) },
	}
}

// Words returns the flag with its allowed values.
func (v FlagValue) Words(words []string) FlagValue {
	v.words = words
	return v
}

// WordsOf returns the allowed values of a flag; none when they are not known.
func WordsOf(v any) []string {
	flag, _ := v.(FlagValue)
	return flag.words
}

// TextVar adds a text flag with a check.
func TextVar(f *pflag.FlagSet, to *string, name string, c check, help string) {
	f.Var(textValue(to, c), name, help)
}

func textValue(to *string, c check) FlagValue {
	return ValueOf(to, ReadText(c), func(s string) string { return s })
}

// OutVar adds --out, the file that a command writes. -o takes it too, by its dot or slash.
func OutVar(f *pflag.FlagSet, to *string, help string) { TextVar(f, to, "out", NotEmpty("file"), help) }

// NamesVar adds a repeatable flag of names; one value may hold several, separated by commas.
func NamesVar(f *pflag.FlagSet, to *[]string, name string, c check, help string) {
	f.Var(FlagValue{Read: func(text string) error {
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

// day is a unit of durations besides those of Go.
const day = 24 * time.Hour

// TimeVar adds a duration flag, also in days and weeks. The value must be positive and at most longest; a longest of
// zero sets no limit.
func TimeVar(f *pflag.FlagSet, to *time.Duration, name string, usual, longest time.Duration, help string) {
	*to = usual
	f.Var(ValueOf(to, func(text string) (time.Duration, error) {
		d, err := parseSpan(text)
		switch {
		case err != nil || d <= 0:
			return usual, fmt.Errorf("%q is not a positive duration such as 90s, 2h or 7d", text)
		case longest > 0 && d > longest:
			return usual, fmt.Errorf("%q is too long; the maximum is %s", text, timeShown(longest))
		}
		return d, nil
	}, timeShown), name, help)
}

// timeShown returns a duration as help shows it: none for 0, which stands for what the help says.
func timeShown(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// UnconfirmedVar adds --unconfirmed.
func UnconfirmedVar(f *pflag.FlagSet, to *time.Duration, what string) {
	TimeVar(f, to, "unconfirmed", 0, 0, "only "+what+" did not confirm within this `TIME`, such as 10m, as the asked "+
		"registry knows; until the next beat after it started it does not know, and lists them")
}

// Within returns a duration for a request; nil for 0.
func Within(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// NumberVar adds a flag for a whole number from 1 to most; what says of what it is a number.
func NumberVar[T int | uint32](f *pflag.FlagSet, to *T, name, what string, most T, help string) {
	f.Var(ValueOf(to, NumberReader(what, most), func(n T) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}), name, help)
}

// NumberReader returns a parser of whole numbers from 1 to most. Those of percentages may end with %.
func NumberReader[T int | uint32](what string, most T) func(string) (T, error) {
	return func(text string) (T, error) {
		digits := text
		if what == Percentage {
			digits = strings.TrimSuffix(text, "%")
		}
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || n == 0 || n > uint64(most) {
			return 0, fmt.Errorf("%q is not %s from 1 to %d", text, what, most)
		}
		return T(n), nil
	}
}

// Percentage is what NumberVar says of a percentage.
const Percentage = "a percentage"

// allRows is the value of a limit that sets no bound.
const allRows = "all"

// LimitVar adds a flag for a number of rows: a count from 1, or all, which is stored as 0.
func LimitVar(f *pflag.FlagSet, to *uint32, name string, usual uint32, help string) {
	LimitVarP(f, to, name, "", usual, help)
}

// LimitVarP is LimitVar with a letter.
func LimitVarP(f *pflag.FlagSet, to *uint32, name, letter string, usual uint32, help string) {
	*to = usual
	f.VarP(ValueOf(to, func(text string) (uint32, error) {
		if text == allRows {
			return 0, nil
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n == 0 {
			return usual, fmt.Errorf("%q is not a whole number from 1, or %s", text, allRows)
		}
		return uint32(n), nil
	}, func(n uint32) string {
		if n == 0 {
			return allRows
		}
		return fmt.Sprint(n)
	}), name, letter, help)
}

// WordVar adds a flag for the word of an enum's value. The help lists the words.
func WordVar[E interface {
	protoreflect.Enum
	~int32
	String() string
}](f *pflag.FlagSet, to *E, name, help string) {
	f.Var(ValueOf(to, listing.ParseWord[E], listing.Word[E]).Words(listing.Words((*to).Descriptor())), name,
		help+": "+strings.Join(listing.Words((*to).Descriptor()), ", "))
}

// WordsVar adds a flag for several words of an enum, separated by commas.
func WordsVar[E interface {
	protoreflect.Enum
	~int32
}](f *pflag.FlagSet, to *[]E, name, help string) {
	var zero E
	f.Var(FlagValue{Read: func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			e, err := listing.ParseWord[E](part)
			if err != nil {
				return err
			}
			*to = append(*to, e)
		}
		return nil
	}}.Words(listing.Words(zero.Descriptor())), name, help+": "+strings.Join(listing.Words(zero.Descriptor()), ", "))
}

// PairsVar adds a repeatable flag of one pair each.
func PairsVar(
	f *pflag.FlagSet,
	to *map[string]string,
	name, help string,
	parse func(word string) (k, v string, err error),
) {
	*to = map[string]string{}
	f.Var(FlagValue{Read: func(text string) error {
		k, v, err := parse(text)
		if had, ok := (*to)[k]; ok && err == nil && had != v {
			return fmt.Errorf("%s has two values, %q and %q", k, had, v)
		}
		(*to)[k] = v
		return err
	}}, name, help)
}

// OutputFlags adds the flags for the format of data, which every command has.
func OutputFlags(o *output.Printer, f *pflag.FlagSet) {
	o.Format = output.FormatTable
	f.VarP(formatValue(o), "output", "o",
		"`FORMAT`: "+strings.Join(output.Formats, ", "))
	f.Var(ValueOf(&o.Filter, output.ParseFilter, (*output.Filter).String), "jq",
		"print what this jq program `EXPR` makes of the rows, an array of objects with the keys of the columns; with "+
			"-o json, of that document")
	f.BoolVar(&o.NoHeaders, "no-headers", false, "omit the header line of tables")
	NamesVar(f, &o.Columns, "columns", NotEmpty("column"), "print only these `COLUMNS`, in this order")
	f.StringVar(&o.Sort, "sort", "", "sort by this `COLUMN`; -COLUMN sorts in descending order")
}

// formatValue takes a format, and the path of a file, which only a command with OutVar has a use for.
func formatValue(o *output.Printer) FlagValue {
	format := textValue(&o.Format, output.CheckFormat).Words(output.Formats)
	read := format.Read
	format.Read = func(text string) error {
		if strings.ContainsAny(text, "./") && !strings.Contains(text, "=") {
			o.File = text
			return nil
		}
		o.File = ""
		return read(text)
	}
	return format
}

// TakeFile takes a path behind -o as --out, and refuses it where a command writes no file.
func TakeFile(env *Env, c *cobra.Command) error {
	path := env.Output.File
	if path == "" {
		return nil
	}
	out := c.Flags().Lookup("out")
	switch {
	case out == nil:
		return Usage("%s: --output: %v. Try: %[1]s --help", c.CommandPath(), output.CheckFormat(path))
	case out.Changed:
		return Usage("%s: -o %s and --out %s name two files. Try: one of them", c.CommandPath(), path, out.Value)
	}
	c.Flags().Lookup("output").Changed = false // no format was asked for
	return c.Flags().Set("out", path)
}

// longestNote is the longest note, in bytes, as the registry has it.
const longestNote = 500

// NoteVar adds --message, why something is done.
func NoteVar(f *pflag.FlagSet, to *string) {
	f.VarP(textValue(to, func(text string) error {
		if len(text) > longestNote || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
			return fmt.Errorf("want one line of printable text, %d bytes at most", longestNote)
		}
		return NotEmpty("message")(text)
	}), "message", "m", "why, such as a ticket: `TEXT` is kept in the ledger")
}

// flagGroup is the annotation of a flag that help shows below a title of its own.
const flagGroup = "group"

// GroupFlags has help show flags below a title. Names that the set lacks are left out.
func GroupFlags(f *pflag.FlagSet, title string, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, flagGroup, []string{title}) // it fails for a flag that is not there
	}
}

// FlagGroup is a part of the flags of a command.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// FlagGroups returns the flags of a command as help shows them: those without a group first, and
// the others by title.
func FlagGroups(f *pflag.FlagSet) []FlagGroup {
	groups := []FlagGroup{{Title: "Flags", Flags: &pflag.FlagSet{}}}
	f.VisitAll(func(f *pflag.Flag) {
		title := groups[0].Title
		if named := f.Annotations[flagGroup]; len(named) > 0 {
			title = named[0]
		}
		n := slices.IndexFunc(groups, func(g FlagGroup) bool { return g.Title == title })
		if n < 0 {
			n, groups = len(groups), append(groups, FlagGroup{Title: title, Flags: &pflag.FlagSet{}})
		}
		groups[n].Flags.AddFlag(f)
	})
	slices.SortFunc(groups[1:], func(a, b FlagGroup) int { return strings.Compare(a.Title, b.Title) })
	return groups
}
