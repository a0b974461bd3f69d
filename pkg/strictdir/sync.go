package strictdir

import (
	"errors"
	"fmt"
	"os"
)

// Sync makes durable which entries a directory has: a rename or a removal in it survives a power cut afterwards.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
