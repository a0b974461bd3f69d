package render

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// verbs are those of package fmt.
const verbs = "%vTtbcdoOqxXUeEfFgGsp"

// maxWidth is the largest width or precision, as in package fmt.
const maxWidth = 1_000_000

var (
	errFormat = errors.New("printf: a directive has no verb, or an unknown one")
	errIndex  = errors.New("printf: a width, a precision or an argument index is wrong")
	errArgs   = errors.New("printf: the format and the number of arguments differ")
)

// printf is fmt.Sprintf within the budget. It formats one directive at a time, so that the width and the precision are
// known before there is a text, also those that are arguments. A missing or unused argument is an error, not a note in
// the text.
func (b *budget) printf(format string, args ...any) (string, error) {
	f := formatter{budget: b, args: args}
	for {
		text, rest, found := strings.Cut(format, "%")
		if err := f.write(text); err != nil {
			return "", err
		}
		if !found {
			break
		}
		length, err := f.directive(rest)
		if err != nil {
			return "", err
		}
		format = rest[length:]
	}
	if f.next < len(args) && !f.reordered {
		return "", errArgs
	}
	return f.out.String(), nil
}

// formatter is the state of one printf.
type formatter struct {
	budget     *budget
	args       []any
	next       int  // the index of the next argument
	afterIndex bool // the directive has just named the argument
	reordered  bool
	out        strings.Builder
}

func (f *formatter) write(text string) error {
	if err := f.room(len(text)); err != nil {
		return err
	}
	f.out.WriteString(text)
	return f.budget.spend(len(text))
}

// room refuses to make n more bytes than the output may have.
func (f *formatter) room(n int) error {
	if f.out.Len()+n > MaxOutput {
		return errLarge
	}
	return nil
}

// directive writes what a directive makes, and returns its length without the percent sign.
func (f *formatter) directive(s string) (length int, err error) {
	rest := strings.TrimLeft(s, "+-# 0")
	spec := "%" + s[:len(s)-len(rest)]
	f.afterIndex = false
	width, rest, err := f.number(rest)
	if err != nil {
		return 0, err
	}
	spec += width
	if after, ok := strings.CutPrefix(rest, "."); ok {
		if f.afterIndex {
			return 0, errIndex
		}
		var precision string
		if precision, rest, err = f.number(after); err != nil {
			return 0, err
		}
		if strings.HasPrefix(precision, "-") {
			return 0, errIndex
		}
		spec += "." + precision
	}
	if rest, err = f.index(rest); err != nil {
		return 0, err
	}
	if rest == "" || !strings.Contains(verbs, rest[:1]) {
		return 0, errFormat
	}
	return len(s) - len(rest) + 1, f.verb(spec, rest[:1])
}

// verb formats one argument.
func (f *formatter) verb(spec, verb string) error {
	if verb == "%" {
		return f.write("%")
	}
	arg, err := f.take()
	if err != nil {
		return err
	}
	if err := fits(arg); err != nil {
		return err
	}
	return f.write(fmt.Sprintf(spec+verb, arg))
}

// number reads a width or a precision: digits, or a star in the place of an argument.
func (f *formatter) number(s string) (digits, rest string, err error) {
	if rest, err = f.index(s); err != nil {
		return "", "", err
	}
	value := 0
	if after, ok := strings.CutPrefix(rest, "*"); ok {
		arg, err := f.take()
		if err != nil {
			return "", "", err
		}
		n, ok := arg.(int)
		if !ok {
			return "", "", errIndex
		}
		value, digits, rest, f.afterIndex = max(n, -n), strconv.Itoa(n), after, false
	} else {
		after := strings.TrimLeft(rest, "0123456789")
		if digits, rest = rest[:len(rest)-len(after)], after; digits != "" {
			value, err = strconv.Atoi(digits)
		}
		if err != nil || f.afterIndex && digits != "" {
			return "", "", errIndex
		}
	}
	if value < 0 || value > maxWidth {
		return "", "", errLarge
	}
	return digits, rest, f.room(value)
}

// index reads an argument index, such as [2], where there is one.
func (f *formatter) index(s string) (rest string, err error) {
	after, ok := strings.CutPrefix(s, "[")
	if !ok {
		return s, nil
	}
	digits, rest, ok := strings.Cut(after, "]")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > len(f.args) || f.afterIndex {
		return "", errIndex
	}
	f.next, f.afterIndex, f.reordered = n-1, true, true
	return rest, nil
}

// take returns the next argument.
func (f *formatter) take() (any, error) {
	if f.next >= len(f.args) {
		return nil, errArgs
	}
	f.next++
	return f.args[f.next-1], nil
}
