package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Checked defines a flag whose value is refused as soon as it is read, from the command
// line or the environment, unless parse takes it. What parse says stands behind the value
// and the flag's name, so it says what is allowed.
func Checked[T any](fs *flag.FlagSet, p *T, name string, value T, usage string, parse func(string) (T, error)) {
	*p = value
	fs.Var(&checked[T]{p, parse}, name, usage)
}

type checked[T any] struct {
	p     *T
	parse func(string) (T, error)
}

// Words returns the words that the flag takes, or nothing when it takes others too.
func (v *checked[T]) Words() []string {
	_, err := v.parse("")
	var of *wordsError
	if errors.As(err, &of) {
		return of.words
	}
	return nil
}

// Set implements flag.Value.
func (v *checked[T]) Set(text string) error {
	got, err := v.parse(text)
	if err == nil {
		*v.p = got
	}
	return err
}

// String implements flag.Value, also for a value without a variable, with which package flag finds the zero value.
func (v *checked[T]) String() string {
	if v.p == nil {
		var zero T
		return fmt.Sprint(zero)
	}
	return fmt.Sprint(*v.p)
}

// Text takes everything but nothing.
func Text(s string) (string, error) {
	if s == "" {
		return "", errors.New("must not be empty")
	}
	return s, nil
}

// OneOf takes some words.
func OneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", &wordsError{words}
		}
		return s, nil
	}
}

// wordsError refuses a value that is not among some words.
type wordsError struct{ words []string }

// Error implements error.
func (e *wordsError) Error() string { return "want " + orList(e.words) }

// Level takes the levels of the log.
var Level = OneOf("debug", "info", "warn", "error")

// From takes whole numbers from least on.
func From[T int | uint64](least T) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < int64(least) {
			return 0, fmt.Errorf("want a whole number from %d", least)
		}
		return T(n), nil
	}
}

// Lasting takes durations from least on; 0 and less are never meant.
func Lasting(least time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d <= 0 {
			return 0, fmt.Errorf("want a duration from %s, such as 5s or 2m", least)
		}
		return d, nil
	}
}

// Address takes HOST:PORT, where the host may be empty and the port 0.
func Address(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", errors.New("want HOST:PORT, such as 127.0.0.1:4222")
	}
	return s, nil
}

// BusURL takes the addresses of a bus, with commas between them.
func BusURL(s string) (string, error) {
	for one := range strings.SplitSeq(s, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one // as the client takes it
		}
		if u, err := url.Parse(one); err != nil || u.Hostname() == "" ||
			!slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return "", errors.New("want nats://HOST:PORT, several with commas")
		}
	}
	return s, nil
}

// File takes the path of a file that is there.
func File(path string) (string, error) {
	info, err := os.Stat(path)
	var cause *fs.PathError
	switch {
	case errors.As(err, &cause):
		return "", fmt.Errorf("cannot read the file: %w", cause.Err)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("not a regular file")
	}
	return path, nil
}

// orList joins words as a sentence does.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
