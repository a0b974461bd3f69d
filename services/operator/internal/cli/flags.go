package cli

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
