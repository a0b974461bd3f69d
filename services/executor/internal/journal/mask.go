package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/garrison-fleet/garrison/pkg/secret"
)

// Masked returns the record with the name of each secret in place of its value, also in its other texts, such as the
// output of an agent. A value that is shorter than secret.Scrub takes is replaced only where it is kept as a secret.
func (l Line) Masked() (Line, error) {
	d := json.NewDecoder(bytes.NewReader(l.Value))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return Line{}, fmt.Errorf("mask %s %s: %w", l.Record, l.Key, err)
	}
	var found []map[string]string // two versions may have different values of one name
	value = maskSecrets(value, &found)
	if len(found) == 0 {
		return l, nil
	}
	for _, secrets := range found {
		value = scrub(value, secrets)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return Line{}, fmt.Errorf("mask %s %s: %w", l.Record, l.Key, err)
	}
	l.Value = bytes.TrimSpace(out.Bytes())
	return l, nil
}

// maskSecrets replaces the values of each object named secrets, and adds them to found.
func maskSecrets(value any, found *[]map[string]string) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = maskSecrets(v[i], found)
		}
	case map[string]any:
		for key, part := range v {
			if o, ok := part.(map[string]any); ok && key == "secrets" {
				*found = append(*found, masked(o))
				continue
			}
			v[key] = maskSecrets(part, found)
		}
	}
	return value
}

// masked replaces the values of an object of secrets and returns them.
func masked(o map[string]any) map[string]string {
	values := map[string]string{}
	for name, value := range maps.Clone(o) {
		values[name] = fmt.Sprint(value)
		o[name] = "<secret " + name + ">"
	}
	return values
}

// scrub takes the values of secrets out of each text.
func scrub(value any, secrets map[string]string) any {
	switch v := value.(type) {
	case string:
		return secret.Scrub(v, secrets)
	case []any:
		for i := range v {
			v[i] = scrub(v[i], secrets)
		}
	case map[string]any:
		for key, part := range v {
			v[key] = scrub(part, secrets)
		}
	}
	return value
}
