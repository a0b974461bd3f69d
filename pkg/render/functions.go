package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// functions returns what a template may call. Those of the language that make text without
// a bound are replaced, or taken away.
func functions(b *budget) template.FuncMap {
	return template.FuncMap{
		stepName:   b.step,
		tickName:   b.tick,
		showName:   b.show,
		"print":    func(args ...any) (string, error) { return b.print(fmt.Sprint, args) },
		"println":  func(args ...any) (string, error) { return b.print(fmt.Sprintln, args) },
		"printf":   b.printf,
		"quote":    func(s string) (string, error) { return b.json(s) },
		"json":     b.json,
		"lookup":   lookup,
		"index":    index,
		"html":     gone,
		"js":       gone,
		"urlquery": gone,
		"call":     gone,
	}
}

var errGone = errors.New("there is no such function here")

func gone(...any) (string, error) { return "", errGone }

func (b *budget) print(f func(...any) string, args []any) (string, error) {
	if err := fits(args...); err != nil {
		return "", err
	}
	return b.keep(f(args...))
}

func (b *budget) json(v any) (string, error) {
	if err := fits(v); err != nil {
		return "", err
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // the output is not a web page
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return b.keep(strings.TrimSuffix(out.String(), "\n"))
}

// show returns what an action prints: a nested value as JSON, any other as it is.
func (b *budget) show(v any) (any, error) {
	switch v.(type) {
	case map[string]any, []any:
		return b.json(v)
	}
	return v, nil
}

// lookup returns a value by its name, which need not be an identifier.
func lookup(m any, name string, instead ...string) (any, error) {
	switch m := m.(type) {
	case map[string]string:
		if v, ok := m[name]; ok {
			return v, nil
		}
	case map[string]any:
		if v, ok := m[name]; ok {
			return v, nil
		}
	default:
		return "", fmt.Errorf("there is no map in which to look up %q", name)
	}
	if len(instead) != 1 {
		return "", fmt.Errorf("there is no %q", name)
	}
	return instead[0], nil
}

// index returns an element of a list by its number, or a value of a map by its name.
func index(of any, at any) (any, error) {
	list, isList := of.([]any)
	switch at := at.(type) {
	case string:
		return lookup(of, at)
	case int:
		if isList && at >= 0 && at < len(list) {
			return list[at], nil
		}
	}
	return "", fmt.Errorf("there is no element %v", at)
}
