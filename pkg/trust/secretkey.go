package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/garrison-fleet/garrison/pkg/secret"
)

// secretKeyFile holds the key that seals the secrets of metadata. The registry and the task-dispatcher share it. Who
// has the ledger and this file has every secret; without the file they must be set again.
const secretKeyFile = "secrets.key"

// SecretKeyFile returns the file with the key of secrets, and creates it when it is missing.
func (a *Authority) SecretKeyFile() (string, error) {
	path := a.path(secretKeyFile)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeFile(path, []byte(secret.NewKeyText()+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("key of secrets: %w", err)
	}
	return path, nil
}

// ReadSecretKey reads the key of secrets from a file; nil when no file is named.
func ReadSecretKey(path string) (*secret.Key, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key of secrets: %w", err)
	}
	key, err := secret.ParseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
