package ansible

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ranged is a range in the name of a host: [01:20], [a:f], or with a step, [0:10:2].
var ranged = regexp.MustCompile(`\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]`)

// maxDigits bounds the numbers of a range.
const maxDigits = 9

// expand returns the hosts that a name with ranges stands for, such as web[01:20].
func expand(name string) ([]string, error) {
	at := ranged.FindStringSubmatchIndex(name)
	if at == nil {
		if strings.ContainsAny(name, "[]") {
			return nil, fmt.Errorf("%q has a range that is not [FROM:TO] or [FROM:TO:STEP]", name)
		}
		return []string{name}, nil
	}
	m := ranged.FindStringSubmatch(name)
	parts, err := span(m[1], m[2], m[3])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	rest, err := expand(name[at[1]:])
	if err != nil {
		return nil, err
	}
	if len(parts)*len(rest) > MaxHosts {
		return nil, fmt.Errorf("%q stands for more than %d hosts", name, MaxHosts)
	}
	var out []string
	for _, p := range parts {
		for _, r := range rest {
			out = append(out, name[:at[0]]+p+r)
		}
	}
	return out, nil
}

// span returns the texts of a range. A number that begins with 0 sets the width of all.
func span(from, to, step string) (out []string, err error) {
	by := 1
	if step != "" {
		if by, err = strconv.Atoi(step); err != nil || by < 1 {
			return nil, fmt.Errorf("the step %s is not a number from 1", step)
		}
	}
	first, isNumber := number(from)
	last, other := number(to)
	if isNumber != other {
		return nil, fmt.Errorf("the range mixes numbers and letters")
	}
	if first > last || len(from) > maxDigits || len(to) > maxDigits {
		return nil, fmt.Errorf("the range from %s to %s is empty or too large", from, to)
	}
	if (last-first)/by >= MaxHosts {
		return nil, fmt.Errorf("the range stands for more than %d hosts", MaxHosts)
	}
	for n := first; n <= last; n += by {
		switch {
		case !isNumber:
			out = append(out, string(rune(n)))
		case from[0] == '0' && len(from) > 1:
			out = append(out, fmt.Sprintf("%0*d", len(from), n))
		default:
			out = append(out, strconv.Itoa(n))
		}
	}
	return out, nil
}

// number returns what a bound of a range counts as: a number, or the code of a letter.
func number(bound string) (n int, isNumber bool) {
	if n, err := strconv.Atoi(bound); err == nil {
		return n, true
	}
	return int(bound[0]), false
}
