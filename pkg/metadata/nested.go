package metadata

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/secret"
)

// The limits of one nested value.
const (
	MaxNested    = 16 << 10 // bytes of its JSON text
	MaxDepth     = 8        // objects and arrays in each other
	maxNestedKey = 128      // bytes
)

// Mark begins a value that is JSON instead of text. What follows is the canonical encoding, so that equal values have
// equal bytes.
const Mark = "garrison:json:1:"

// IsNested reports whether a value has the form of JSON instead of text.
func IsNested(value string) bool { return strings.HasPrefix(value, Mark) }

// FromJSON returns the value for a JSON text: a JSON string becomes plain text, anything else the canonical encoding
// behind its mark. An error is a refusal BAD_METADATA and quotes no value.
func FromJSON(text string) (string, error) {
	if len(text) > 4*MaxNested {
		return "", refuse("the JSON text has %d bytes; %d are the most", len(text), 4*MaxNested)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := parse(d, 0)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more text follows the value")
		}
	}
	if err != nil {
		return "", refuse("not valid JSON: %v", err)
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	value := Mark + encode(v)
	if len(value)-len(Mark) > MaxNested {
		return "", refuse("the JSON text has %d bytes; %d are the most", len(value)-len(Mark), MaxNested)
	}
	return value, nil
}

// parse reads one JSON value. It refuses duplicate keys, depth beyond MaxDepth, texts that Check would refuse, and
// sealed ones: a secret is a value of its own.
func parse(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, syntax(err)
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == MaxDepth {
			return nil, errors.New("objects and arrays are nested deeper than " + strconv.Itoa(MaxDepth))
		}
		if t == '{' {
			return parseObject(d, depth+1)
		}
		return parseArray(d, depth+1)
	case json.Number:
		return number(t)
	case string:
		if !text(t) || IsNested(t) || secret.IsSealed(t) {
			return nil, errors.New("a string is not printable text, or is a sealed secret")
		}
		return t, nil
	}
	return token, nil // true, false or null
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	out := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, syntax(err)
		}
		key, _ := token.(string)
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, errors.New("an object has the key " + strconv.Quote(key) + " twice")
		}
		if out[key], err = parse(d, depth); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return out, syntax(err)
}

func parseArray(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := parse(d, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := d.Token()
	return out, syntax(err)
}

// syntax returns an error of the decoder without the text that it quotes.
func syntax(err error) error {
	var s *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &s):
		return errors.New("syntax error at byte " + strconv.FormatInt(s.Offset, 10))
	}
	return errors.New("it ends too early")
}

func checkKey(key string) error {
	if key == "" || len(key) > maxNestedKey || !text(key) {
		return errors.New("a key of an object is empty, longer than " + strconv.Itoa(maxNestedKey) +
			" bytes, or not printable text")
	}
	return nil
}

// number returns a number in its only form: whole numbers of 64 bits exactly, others as the nearest float64.
func number(n json.Number) (json.Number, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10)), nil
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10)), nil
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) {
		return "", errors.New("a number is out of range")
	}
	if f == 0 {
		return "0", nil // also for -0.0
	}
	out, err := json.Marshal(f)
	return json.Number(out), err
}

// encode returns the canonical encoding: keys sorted, no white space.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // never fails for what parse returns
	return strings.TrimSuffix(b.String(), "\n")
}

// Decode returns what a value holds: a string for text and sealed values; for JSON nil, a bool, a json.Number, an []any
// or a map[string]any. A value with the form of JSON that is no JSON is a string.
func Decode(value string) any {
	rest, nested := strings.CutPrefix(value, Mark)
	if !nested {
		return value
	}
	d := json.NewDecoder(strings.NewReader(rest))
	d.UseNumber()
	v, err := parse(d, 0)
	if err != nil {
		return value
	}
	return v
}

// store returns the value that holds v.
func store(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return Mark + encode(v)
}

// Plain returns what Decode returned as text: a string as it is, anything else as JSON.
func Plain(held any) string {
	if s, ok := held.(string); ok {
		return s
	}
	return encode(held)
}

// Object returns what all values hold, by name.
func Object(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = Decode(v)
	}
	return out
}

// Text returns what a person sees of a value: JSON without its mark, and of a secret only that it is one.
func Text(value string) string {
	if rest, nested := strings.CutPrefix(value, Mark); nested {
		return rest
	}
	return secret.Text(value)
}

// checkNested refuses a value with the form of JSON that is not in canonical form.
func checkNested(k, v string) error {
	canonical, err := FromJSON(strings.TrimPrefix(v, Mark))
	if err != nil {
		return refuse("value %q: %v", k, err)
	}
	if canonical != v {
		return refuse("value %q is not in its canonical form", k)
	}
	return nil
}
