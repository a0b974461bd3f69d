package scenario

import (
	"errors"
	"fmt"
	"os"
)

// NothingAt returns an error when a path exists.
func NothingAt(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}

// Left returns an error unless no instances are left.
func Left(instances int) error {
	if instances == 0 {
		return nil
	}
	return fmt.Errorf("%d instances are left", instances)
}
