package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// functions gives what a template may call. Those of the language that make text without
// a bound are replaced, or taken away.
func functions(step func() (string, error)) template.FuncMap {
	return template.FuncMap{
		stepName: step,
		"print":  func(args ...any) (string, error) { return made(args, fmt.Sprint) },
		"println": func(args ...any) (string, error) {
			return made(args, fmt.Sprintln)
		},
		"printf": func(format string, args ...any) (string, error) {
			return made(append([]any{format}, args...), func(a ...any) string { return fmt.Sprintf(format, args...) })
		},
		"quote":    asJSON[string],
		"json":     asJSON[any],
		"lookup":   lookup,
		"index":    func(m map[string]string, name string) (string, error) { return lookup(m, name) },
		"html":     gone,
		"js":       gone,
		"urlquery": gone,
		"call":     gone,
	}
}

var errGone = errors.New("there is no such function here")

func gone(...any) (string, error) { return "", errGone }

// made makes a text from others, unless they are too large together.
func made(args []any, f func(...any) string) (string, error) {
	if err := fits(args...); err != nil {
		return "", err
	}
	return fitting(f(args...))
}

func asJSON[T any](v T) (string, error) {
	if err := fits(v); err != nil {
		return "", err
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // nobody puts it into a web page
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return fitting(strings.TrimSuffix(out.String(), "\n"))
}

func fits(args ...any) error {
	total := 0
	for _, a := range args {
		if s, ok := a.(string); ok {
			total += len(s)
		}
	}
	if total > MaxOutput {
		return errLarge
	}
	return nil
}

func fitting(s string) (string, error) {
	if len(s) > MaxOutput {
		return "", errLarge
	}
	return s, nil
}

// lookup gives a value by its name, which need not be an identifier.
func lookup(m map[string]string, name string, instead ...string) (string, error) {
	if v, ok := m[name]; ok {
		return v, nil
	}
	if len(instead) != 1 {
		return "", fmt.Errorf("there is no %q", name)
	}
	return instead[0], nil
}
