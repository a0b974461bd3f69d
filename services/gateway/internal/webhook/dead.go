package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// mostDead bounds the dead letters of a route; the oldest go. One has some hundred bytes: the fact itself stays in the
// ledger.
const mostDead = 1000

// letter is a delivery that was given up.
type letter struct {
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"`
	Fact     string    `json:"fact"` // its noun and name
	Key      string    `json:"key"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason"`
}

// Each dead letter is a file of its own, so that the process that writes them and the command that sends them again
// need no lock.
func deadDir(dir, route string) string { return filepath.Join(dir, route+".dead") }

func letterFile(dir, route string, sequence uint64) string {
	return filepath.Join(deadDir(dir, route), fmt.Sprintf("%020d.json", sequence))
}

// bury keeps a dead letter.
func bury(dir, route string, l letter) error {
	if err := strictdir.Make(deadDir(dir, route), 0o700); err != nil {
		return err
	}
	if err := writeJSON(letterFile(dir, route, l.Sequence), l); err != nil {
		return err
	}
	files, err := letterFiles(dir, route)
	if err != nil {
		return err
	}
	for _, f := range files[:max(0, len(files)-mostDead)] {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// letterFiles returns the files of dead letters, the oldest first.
func letterFiles(dir, route string) ([]string, error) {
	entries, err := os.ReadDir(deadDir(dir, route)) // by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var files []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".json" {
			files = append(files, filepath.Join(deadDir(dir, route), e.Name()))
		}
	}
	return files, err
}

// letters returns the dead letters of a route, the oldest first.
func letters(dir, route string) (all []letter, err error) {
	files, err := letterFiles(dir, route)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		var l letter
		data, err := strictdir.ReadSecret(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // sent again, or dropped
		}
		if err == nil {
			err = json.Unmarshal(data, &l)
		}
		if err != nil {
			return nil, fmt.Errorf("read dead letter %s: %w", f, err)
		}
		all = append(all, l)
	}
	return all, nil
}
