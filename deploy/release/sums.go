package release

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/seal"
)

// The files of a release that are about the others.
const (
	sumsName      = "SHA256SUMS"
	signatureName = "SHA256SUMS.sig"
	unsignedName  = "UNSIGNED"
	installerName = "install.sh"
)

// seal adds the installer, writes the checksums of every file, and signs them.
func (m *maker) seal() error {
	installer, err := os.ReadFile(filepath.Join(m.Root, "deploy", installerName))
	if err != nil {
		return err
	}
	if err := m.write(installerName, installer, 0o755); err != nil {
		return err
	}
	if m.Seed == nil {
		text := fmt.Sprintf("Garrison %s of commit %s is not signed.\n", m.Version, m.tree.commit)
		if err := m.write(unsignedName, []byte(text), 0o644); err != nil {
			return err
		}
	}
	sums, err := sumsOf(m.out)
	if err != nil {
		return err
	}
	if err := m.write(sumsName, sums, 0o644); err != nil || m.Seed == nil {
		return err
	}
	_, signature, err := seal.SignSums(sums, m.Seed)
	if err != nil {
		return err
	}
	return m.write(signatureName, signature, 0o644)
}

func (m *maker) write(name string, data []byte, mode fs.FileMode) error {
	path := filepath.Join(m.out, name)
	return errors.Join(os.WriteFile(path, data, mode), os.Chmod(path, mode))
}

// sumsOf returns the checksums of the files in a directory, as sha256sum prints them.
func sumsOf(dir string) ([]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	for _, f := range files {
		if f.Name() == sumsName || f.Name() == signatureName {
			continue
		}
		if !f.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", filepath.Join(dir, f.Name()))
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return sums.Bytes(), nil
}

// Verify refuses a release with a file that was changed, added or lost, and one that none of the keys signed. Without
// keys it compares checksums alone.
func Verify(dir string, keys []string) error {
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		signature, err := os.ReadFile(filepath.Join(dir, signatureName))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not signed: it has no %s", dir, signatureName)
		} else if err != nil {
			return err
		}
		if err := seal.CheckSums(sums, signature, keys); err != nil {
			return err
		}
	}
	have, err := sumsOf(dir)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(have) {
		if !bytes.Contains(sums, line) {
			return fmt.Errorf("%s is not as %s lists it, or is not listed", bytes.TrimSpace(line[66:]), sumsName)
		}
	}
	if len(have) != len(sums) {
		return fmt.Errorf("%s lists files that %s does not have", sumsName, dir)
	}
	return nil
}
