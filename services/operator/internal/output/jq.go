package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Filter is a program in the language of jq that turns data into lines of text.
type Filter struct {
	text string
	code *gojq.Code
}

// ParseFilter parses a program of --jq. It has no access to the environment, to files or to modules.
func ParseFilter(text string) (*Filter, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		var wrong *gojq.ParseError
		if errors.As(err, &wrong) && wrong.Token != "" {
			return nil, fmt.Errorf("%q cannot be parsed: unexpected %q at byte %d", text, wrong.Token, wrong.Offset)
		}
		return nil, fmt.Errorf("%q cannot be parsed: it ends too early", text)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be run: %w", text, err)
	}
	return &Filter{text: text, code: code}, nil
}

// String returns the program.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// print runs the program on a JSON document and prints each result on a line: text as it is, anything else as JSON.
func (f *Filter) print(ctx context.Context, w io.Writer, document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // whole numbers stay exact
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	for results := f.code.RunWithContext(ctx, value); ; {
		result, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := result.(error); failed {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil // the program ended itself
			}
			return fmt.Errorf("--jq: %w. Try: --jq . to see the data", err)
		}
		line, err := filterLine(result)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
}

// filterLine returns one result as text.
func filterLine(result any) (string, error) {
	if text, ok := result.(string); ok {
		return visible.Text(text), nil
	}
	data, err := gojq.Marshal(result)
	return string(visible.JSON(data)), err
}
