package allinone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/format"
)

// dataFormat numbers the data directory; its numbers stand in the file "format".
var dataFormat = format.Spec{Kind: "data directory", Now: 1, Floor: 1}

// checkData refuses a data directory of a format that only a newer program may use.
// Nothing is written. A directory from before there were numbers has none.
func checkData(data string) (have format.Stamp, err error) {
	text, err := os.ReadFile(filepath.Join(data, "format"))
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	if err == nil {
		err = dataFormat.ReadJSON(data, text, &have)
	}
	if err != nil {
		return have, fmt.Errorf("read the format of data directory %s: %w", data, err)
	}
	return have, nil
}

// adoptData writes the numbers into a directory that has older ones, or none.
func adoptData(data string, have format.Stamp) error {
	if have.Format >= dataFormat.Now {
		return nil
	}
	text, err := json.Marshal(dataFormat.Stamp())
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(data, "format"), append(text, '\n'), 0o600)
}
