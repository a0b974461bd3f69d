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
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// dataFormat is the format of the data directory, as the file "format" holds it.
var dataFormat = format.Spec{Kind: "data directory", Now: 1, Floor: 1}

// checkData refuses a data directory that another user could change, or whose format needs a newer
// program. It writes nothing. Directories from before there were numbers have none.
func checkData(data string) (have format.Stamp, err error) {
	if err := checkPermissions(data); err != nil {
		return have, err
	}
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

// checkPermissions refuses a data directory in which another user could change the keys or what the
// services believe.
func checkPermissions(data string) error {
	if err := strictdir.Dir(data); err != nil {
		return err
	}
	for _, dir := range []string{"jetstream", "cluster", "views", "accounts", "trust", "trust/tls", "webhooks"} {
		if err := strictdir.Dir(filepath.Join(data, dir)); err != nil {
			return err
		}
	}
	for _, file := range []string{"format", "address", "lock", "operator.json", "trust/authority.json"} {
		if err := strictdir.File(filepath.Join(data, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return strictdir.Tree(filepath.Join(data, "trust", "keys"))
}

// adoptData writes the current numbers into a directory with older ones, or without.
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
