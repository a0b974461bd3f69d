package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// refused are the keywords that move the base of references, or resolve them when a value is checked.
var refused = []string{
	"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary",
}

var errCycle = errors.New("its references form a cycle")

// walk counts the values of a schema, those behind references at each of them.
type walk struct {
	root  any
	known map[string]int // by reference; 0 while it is being counted
}

// bounded refuses a schema whose check could take long.
func bounded(root any) error {
	n, err := (&walk{root, map[string]int{}}).count(root)
	if err == nil && n > MaxNodes {
		err = fmt.Errorf("with its references followed it has more than %d values", MaxNodes)
	}
	return err
}

func (w *walk) count(v any) (int, error) {
	switch v := v.(type) {
	case map[string]any:
		return w.object(v)
	case []any:
		n := 1
		for _, part := range v {
			more, err := w.count(part)
			if err != nil {
				return 0, err
			}
			n = min(n+more, MaxNodes+1)
		}
		return n, nil
	}
	return 1, nil
}

func (w *walk) object(o map[string]any) (int, error) {
	for _, keyword := range refused {
		if _, isText := o[keyword].(string); isText {
			return 0, fmt.Errorf("it uses %s", keyword)
		}
	}
	n := 1
	for _, part := range o {
		more, err := w.count(part)
		if err != nil {
			return 0, err
		}
		n = min(n+more, MaxNodes+1)
	}
	ref, ok := o["$ref"].(string)
	if !ok {
		return n, nil
	}
	more, err := w.follow(ref)
	return min(n+more, MaxNodes+1), err
}

// follow counts what a reference leads to.
func (w *walk) follow(ref string) (int, error) {
	if n, ok := w.known[ref]; ok {
		if n == 0 {
			return 0, errCycle
		}
		return n, nil
	}
	if !strings.HasPrefix(ref, "#/") || strings.Contains(ref, "%") {
		return 0, fmt.Errorf("the reference %.80q does not begin with #/, or is escaped", ref)
	}
	at := w.root
	for _, token := range strings.Split(ref[2:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			if n, err := strconv.Atoi(token); err == nil && n >= 0 && n < len(v) {
				at = v[n]
				continue
			}
			at = nil
		default:
			at = nil
		}
	}
	if at == nil {
		return 0, fmt.Errorf("the reference %.80q leads nowhere", ref)
	}
	w.known[ref] = 0
	n, err := w.count(at)
	w.known[ref] = n
	return n, err
}
