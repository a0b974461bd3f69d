package image

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// mode is the mode of a file: octal, as a number such as 0640 or as text such as "0640".
type mode uint32

// UnmarshalJSON reads a mode. YAML has read a number with a leading 0 as octal.
func (m *mode) UnmarshalJSON(data []byte) error {
	var number uint32
	if err := json.Unmarshal(data, &number); err == nil {
		*m = mode(number)
		return nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		var octal uint64
		octal, err = strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
		*m = mode(octal)
	}
	if err != nil {
		return fmt.Errorf("run.configs.mode %s is not a mode; write it as 0640", data)
	}
	return nil
}
