package output

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// plain returns the JSON of a message as a script wants it: nested metadata is JSON instead of a text of JSON, and the
// servers of a wave are counted by the name of a state instead of its number. In a text of JSON every quote has a
// backslash before it, so that no text of a message is taken for a field.
func plain(data []byte) []byte {
	return byName(nested(data))
}

// nested replaces each text that is marked as JSON by the JSON.
func nested(data []byte) []byte {
	begin, out := []byte(`"`+metadata.Mark), []byte(nil)
	for {
		at := bytes.Index(data, begin)
		switch {
		case at < 0 && out == nil:
			return data
		case at < 0:
			return append(out, data...)
		}
		out, data = append(out, data[:at]...), data[at:]
		n := textEnd(data)
		var value string
		if err := json.Unmarshal(data[:n], &value); err == nil && json.Valid([]byte(metadata.Text(value))) {
			out = append(out, metadata.Text(value)...)
		} else {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
}

// textEnd returns the length of the text that begins with the first byte, its quotes included.
func textEnd(data []byte) int {
	for n := 1; n < len(data); n++ {
		switch data[n] {
		case '\\':
			n++
		case '"':
			return n + 1
		}
	}
	return len(data)
}

var (
	numbered = regexp.MustCompile(`"counts":\{(?:"[0-9]+":[0-9]+,?)+\}`)
	number   = regexp.MustCompile(`"[0-9]+":`)
)

// byName replaces the numbers of states by their names.
func byName(data []byte) []byte {
	return numbered.ReplaceAllFunc(data, func(counts []byte) []byte {
		return number.ReplaceAllFunc(counts, func(key []byte) []byte {
			n, err := strconv.Atoi(string(key[1 : len(key)-2]))
			if err != nil {
				return key
			}
			return []byte(`"` + Word(rolloutv1.TargetState(n)) + `":`)
		})
	})
}
